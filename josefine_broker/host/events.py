"""Log lines as events: a constant message plus fields, one line each, never payload bytes.

Code logs with the standard library: `log.info("segment rolled", extra={"topic": …})`. As text every
extra field is appended as `key=value`, so a line can be grepped and split; as JSON each line is an
object that includes any traceback.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from math import isfinite
from typing import TextIO

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes that every LogRecord has; all others are the event's own fields."""

FIELD_CHARS_MAX = 500
"""Longer fields are cut: a log line must not carry a payload by accident."""


class EventFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO message key=value …`, then a traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {key}={_text(value)}" for key, value in _fields(record).items())
        line = f"{_moment(record)} {record.levelname} {record.getMessage()}{fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """`{"time": …, "level": …, "logger": …, "message": …, "fields": {…}}`, and `"trace"` if there
    is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _moment(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "fields": {key: _plain(value) for key, value in _fields(record).items()},
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


FORMATTERS: dict[str, type[logging.Formatter]] = {"text": EventFormatter, "json": JsonFormatter}
"""`logging.format` → formatter."""


def _moment(record: logging.LogRecord) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{moment}.{int(record.msecs):03d}Z"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _plain(value: object) -> object:
    """Numbers stay numbers, except infinite ones, which JSON lacks."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= FIELD_CHARS_MAX else text[:FIELD_CHARS_MAX] + "…"


def _text(value: object) -> str:
    text = _cut(str(value))
    return repr(text) if not text or any(c.isspace() or c in "\"'=" for c in text) else text


def configure_logging(level: str, lines: str = "text", stream: TextIO | None = None) -> None:
    """Send all events of `level` and above to `stream` (stderr) in this format. Called once, by
    main."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(FORMATTERS[lines]())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("opentelemetry").setLevel(
        logging.CRITICAL
    )  # host/spans.py logs these, rate limited
