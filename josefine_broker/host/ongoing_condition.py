"""A trouble that lasts (`base/lasting.py`), told to a log."""

from __future__ import annotations

import logging

from josefine_broker.base.lasting import Lasting


def logged(log: logging.Logger, what: str, **fields: object) -> Lasting:
    """One whose lines go there, `fields` with each of them."""

    def tell(message: str, **told: object) -> None:
        log.info(message, extra=told)

    return Lasting(tell, what, **fields)
