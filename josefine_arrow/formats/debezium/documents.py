"""Documents of Debezium for MongoDB: MongoDB's Extended JSON to plain JSON.

`before` and `after` are texts, in which a value that JSON lacks is an object such as
`{"$oid": "..."}`. Here each becomes a JSON value that fits a column: an id, a binary (Base64) and a
date with its text become texts, numbers and dates in milliseconds become numbers. Others, such as
`$timestamp` or NaN, stay objects, which a column of type STRING takes as text.

The replacements cannot touch the inside of a text: there a quote is escaped, and no `$` follows
the quote that ends a text.

Source: MongoDB Extended JSON v2 (canonical and relaxed), and the strict mode of v1, which the
connector writes.
"""

from __future__ import annotations

import re

UPDATE = (
    "updateDescription STRUCT<removedFields: ARRAY<STRING>, updatedFields: STRING, "
    "truncatedArrays: ARRAY<STRUCT<field: STRING, size: BIGINT>>>"
)
"""The envelope's own column of these changes."""

_NUMBER = r"-?[0-9]+(?:[.][0-9]+)?(?:[eE][-+]?[0-9]+)?"
_TEXT = r'"[^"\\]*"'


def _object(*entries: tuple[str, str]) -> str:
    said = r"\s*,\s*".join(rf'"{re.escape(name)}"\s*:\s*{value}' for name, value in entries)
    return rf"\{{\s*{said}\s*\}}"


PLAIN = (
    (_object(("$oid", f"({_TEXT})"))),
    (_object(("$numberLong", '"(-?[0-9]+)"'))),
    (_object(("$numberInt", '"(-?[0-9]+)"'))),
    (_object(("$numberDouble", f'"({_NUMBER})"'))),
    (_object(("$numberDecimal", f'"({_NUMBER})"'))),
    # After $numberLong, whose object canonical dates contain.
    (_object(("$date", f"({_NUMBER}|{_TEXT})"))),
    (_object(("$binary", f"({_TEXT})"), ("$type", _TEXT))),
    (_object(("$binary", _object(("base64", f"({_TEXT})"), ("subType", _TEXT))))),
)
"""Regular expressions in this order; each match is replaced by its only group. Python and Java read
them alike."""
