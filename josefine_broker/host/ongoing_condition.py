"""A lasting condition (`base/lasting.py`) whose lines go to a logger."""

from __future__ import annotations

import logging

from josefine_broker.base.lasting import Lasting


def logged(log: logging.Logger, what: str, **fields: object) -> Lasting:
    """A condition logged here, with `fields` on each line."""

    def tell(message: str, **told: object) -> None:
        log.info(message, extra=told)

    return Lasting(tell, what, **fields)
