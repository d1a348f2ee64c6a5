"""Placeholder of Debezium for a value that the database's log does not have.

PostgreSQL logs a large value (TOAST) only when it changes, Oracle a LOB only when it is written. In
the row of another change the connector writes `unavailable.value.placeholder` in its place, in a
form of the column's type: the text; for bytes its bytes, or these as Base64 or hexadecimal text;
for an array of texts one element with the text, of UUIDs one element with the name-based UUID of
the bytes, of bytes one element with them, of numbers one element per byte; for hstore one entry
from the text to itself, or this entry as JSON text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from dataclasses import dataclass

PLACEHOLDER = "__debezium_unavailable_value"
"""The connectors' default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """What the placeholder is in a column of each type."""

    text: str
    texts: tuple[str, ...]
    """All that it may be in a column of texts."""
    elements: tuple[str, ...]
    """The only element of an array of texts."""
    data: bytes
    numbers: tuple[int, ...]
    """The elements of an array of numbers: signed bytes."""


def forms_of(placeholder: str) -> Forms:
    """The forms of a placeholder."""
    data = placeholder.encode()
    texts = (
        placeholder,
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode(),
        data.hex(),
        json.dumps({placeholder: placeholder}, ensure_ascii=False, separators=(",", ":")),
    )
    digest = hashlib.md5(data, usedforsecurity=False).digest()
    return Forms(
        text=placeholder,
        texts=tuple(dict.fromkeys(texts)),
        elements=(placeholder, str(uuid.UUID(bytes=digest, version=3))),
        data=data,
        numbers=tuple(byte - 256 if byte > 127 else byte for byte in data),
    )


def pattern_of(placeholder: str) -> str:
    """A regular expression that finds a form in a row as JSON; Python and Java read it alike."""
    forms = forms_of(placeholder)
    texts = dict.fromkeys((*forms.texts, *forms.elements))
    whole = "|".join(re.escape(json.dumps(text, ensure_ascii=False)) for text in texts)
    numbers = ",".join(rf"{number}([.]0)?" for number in forms.numbers)
    return rf"{whole}|\[{numbers}\]"
