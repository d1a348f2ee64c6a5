"""One line of CSV to the Python values of a schema, or the reason (RFC 4180).

A field is stored as it was sent, by the rules of `json.value_reader`. An empty field is null. A
quote inside a field without quotes is a character like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from josefine_arrow.formats.byte_order_mark import EncodingError, text_of
from josefine_arrow.formats.json.grammar import Number
from josefine_arrow.formats.json.options import JsonOptions
from josefine_arrow.formats.json.value_reader import (
    MISFIT,
    MisfitError,
    reader_of,
)

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WHOLE = re.compile(r"([+-]?)0*([0-9]+)")
_BREAK = re.compile(r"\r?\n\Z")


class LineReader:
    """Reads lines of one schema. Without state of single values."""

    def __init__(self, kind: pa.StructType, options: JsonOptions, separator: str = ",") -> None:
        self._fields = [(each.name, _of_text(each.type, options)) for each in kind]
        sep = re.escape(separator)
        self._field = re.compile(rf'(?:"((?:[^"]|"")*)"|((?!")[^{sep}\r\n]*))({sep}|\Z)')
        count = len(self._fields)
        self._other_count = f"not a line of {count} field{'' if count == 1 else 's'}"

    def read(self, data: bytes) -> tuple[dict[str, Any] | None, str | None]:
        """(values by column, None), or (None, the reason)."""
        try:
            text = _BREAK.sub("", text_of(data))
        except EncodingError as error:
            return None, str(error)
        if text.count('"') % 2:
            return None, "a quote is not closed"
        texts = self._split(text)
        # An empty text is one empty field, so it is a line only of a single column.
        if texts is None or len(texts) != len(self._fields):
            return None, self._other_count
        found, wrong = {}, []
        for (name, read), given in zip(self._fields, texts, strict=True):
            if given:
                try:
                    found[name] = read(given)
                except MisfitError as error:
                    wrong += [f"{name} {what}" for _, what in error.parts]
        return (None, MISFIT + ", ".join(wrong)) if wrong else (found, None)

    def _split(self, text: str) -> list[str] | None:
        """The fields' texts; None if the line is not made of fields."""
        found, at = [], 0
        while True:
            field = self._field.match(text, at)
            if field is None:
                return None
            quoted, bare, end = field.groups()
            found.append(bare if quoted is None else quoted.replace('""', '"'))
            at = field.end()
            if not end:
                return found


def _of_text(kind: pa.DataType, options: JsonOptions) -> Callable[[str], Any]:
    """The reader of a type from a field's text, which is not empty."""
    read = reader_of(kind, options)
    if pa.types.is_boolean(kind):
        return lambda text: read({"true": True, "false": False}.get(text.lower(), text))
    if pa.types.is_signed_integer(kind):
        return lambda text: read(_whole(text))
    if pa.types.is_floating(kind):
        return lambda text: read(Number(text) if _NUMBER.fullmatch(text) else text)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return lambda text: read(Number(text) if _NUMBER.fullmatch(text) else text)
    return read


def _whole(text: str) -> str:
    """A whole number in JSON's form; any other text as it is."""
    found = _WHOLE.fullmatch(text)
    if found is None:
        return text
    return Number(found[1].replace("+", "") + found[2])
