"""The engine's notices as log lines."""

from __future__ import annotations

import logging

from josefine_broker.engine.ports import Gravity

log = logging.getLogger(__name__)

LEVELS = {
    Gravity.INFO: logging.INFO,
    Gravity.WARNING: logging.WARNING,
    Gravity.ERROR: logging.ERROR,
}


def tell(message: str, /, *, gravity: Gravity = Gravity.INFO, **fields: object) -> None:
    """`engine.ports.TellPort`."""
    log.log(LEVELS[gravity], message, extra=fields)
