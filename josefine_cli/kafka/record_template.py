"""Templates of `consume --format`: a line for each record, with its fields in braces.

`{topic}:{partition}@{offset} {key} {value.customer.id}`: the part after a dot is a field of a JSON
object. `{{` and `}}` are braces, `\\t` and `\\n` are what they are elsewhere.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from typing import Any

from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.builder import Record
from josefine_cli.base.errors import UsageError
from josefine_cli.base.output import iso_time

Shown = Callable[[bytes | None], bytes]
"""Bytes of a record for the output: unchanged in a file or pipe, escaped on a terminal."""
Part = Callable[[TopicPartition, Record, Shown], bytes]

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|\\[tn\\]")
_ESCAPES = {"{{": b"{", "}}": b"}", "\\t": b"\t", "\\n": b"\n", "\\\\": b"\\"}
_WITH_PATH = ("key", "value")


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_FIELDS: dict[str, Part] = {
    "topic": lambda tp, record, show: _text(tp.topic),
    "partition": lambda tp, record, show: _text(str(tp.partition)),
    "offset": lambda tp, record, show: _text(str(record.offset)),
    "timestamp": lambda tp, record, show: _text(str(record.timestamp_ms)),
    "time": lambda tp, record, show: _text(iso_time(record.timestamp_ms) or "-"),
    "key": lambda tp, record, show: show(record.key),
    "value": lambda tp, record, show: show(record.value),
    "size": lambda tp, record, show: _text(str(len(record.value or b""))),
    "headers": lambda tp, record, show: b",".join(
        show(name.encode()) + b"=" + show(value) for name, value in record.headers
    ),
}
_HEADER = "header."


def is_template(text: str) -> bool:
    """Whether a text is a template, not the name of a format."""
    return any(each in text for each in "{}\\")


def parse_template(text: str) -> Part:
    """The bytes of a line for each record. Raises UsageError for an unknown field."""
    parts: list[Part] = []
    at = 0
    for found in _TOKEN.finditer(text):
        parts.append(_constant(_text(text[at : found.start()])))
        at = found.end()
        token = found[0]
        if token in ("{", "}"):
            raise UsageError(
                f"--format '{text}': a '{token}' without its other half; '{token * 2}' is a brace"
            )
        parts.append(_constant(_ESCAPES[token]) if token in _ESCAPES else _field(text, found[1]))
    parts.append(_constant(_text(text[at:])))
    return lambda tp, record, show: b"".join(part(tp, record, show) for part in parts)


def _constant(data: bytes) -> Part:
    return lambda tp, record, show: data


def _field(text: str, name: str) -> Part:
    if name.startswith(_HEADER):
        return _header(name.removeprefix(_HEADER))
    side, _, path = name.partition(".")
    if path and side in _WITH_PATH:
        return _inside(side, path.split("."))
    if name not in _FIELDS:
        near = difflib.get_close_matches(name, _FIELDS, n=1)
        known = f"there are {', '.join(_FIELDS)}, value.FIELD, key.FIELD, header.NAME"
        hint = f"did you mean '{{{near[0]}}}'?" if near else known
        raise UsageError(f"--format '{text}': no field '{{{name}}}': {hint}")
    return _FIELDS[name]


def _header(name: str) -> Part:
    def part(tp: TopicPartition, record: Record, show: Shown) -> bytes:
        return next((show(value) for each, value in record.headers if each == name), b"-")

    return part


def _inside(side: str, path: list[str]) -> Part:
    """A field of a JSON object; `-` where there is none."""

    def part(tp: TopicPartition, record: Record, show: Shown) -> bytes:
        data = record.key if side == "key" else record.value
        try:
            found: Any = json.loads(data or b"")
            for name in path:
                found = found[int(name)] if isinstance(found, list) else found[name]
        except (ValueError, KeyError, TypeError, IndexError):
            return b"-"
        text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
        return show(text.encode("utf-8", "surrogatepass"))

    return part
