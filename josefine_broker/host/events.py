"""Log lines as events: a constant message plus fields, one line each, never payload bytes.

Code logs with the standard library: `log.info("segment rolled", extra={"topic": …})`. The
formatter here appends every extra field as `key=value`, so a line can be grepped and split.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import TextIO

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes every LogRecord has; what remains is the event's own fields."""

FIELD_CHARS_MAX = 500
"""A field longer than this is cut: a log line must not carry a payload by accident."""


class EventFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO message key=value …`, then a traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = "".join(
            f" {key}={_text(value)}" for key, value in vars(record).items() if key not in _STANDARD
        )
        line = f"{moment}.{int(record.msecs):03d}Z {record.levelname} {record.getMessage()}{fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _text(value: object) -> str:
    text = str(value)
    if len(text) > FIELD_CHARS_MAX:
        text = text[:FIELD_CHARS_MAX] + "…"
    return repr(text) if not text or any(c.isspace() or c in "\"'=" for c in text) else text


def configure_logging(level: str, stream: TextIO | None = None) -> None:
    """Send all events of `level` and worse to `stream` (stderr). Called once, by main."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(EventFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
