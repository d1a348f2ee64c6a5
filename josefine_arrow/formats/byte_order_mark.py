"""Texts as bytes: UTF-8, whose byte order mark is removed; other marks name another encoding.

Source: Unicode 16, section 23.8. RFC 8259 lets a JSON parser ignore the mark of UTF-8, and programs
of Windows write it before JSON and CSV.
"""

from __future__ import annotations

UTF_8 = b"\xef\xbb\xbf"
_OTHERS = {
    # First those of UTF-32: the mark of UTF-16 is the start of one of them.
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
REASONS = {
    mark: f"{name} text: it begins with that byte order mark, expected UTF-8"
    for mark, name in _OTHERS.items()
}
"""Mark → the reason of a dead letter; the first one that matches counts."""


NOT_UTF8 = "not UTF-8 text"


class EncodingError(ValueError):
    """The message is the reason for which bytes are not a text."""


def text_of(data: bytes) -> str:
    """The text without the mark of UTF-8. Raises EncodingError."""
    try:
        return str(without_mark(data), "utf-8")
    except UnicodeDecodeError as error:
        raise EncodingError(reason(data) or NOT_UTF8) from error


def without_mark(data: bytes) -> bytes:
    """The text without the mark of UTF-8."""
    return data.removeprefix(UTF_8)


def reason(data: bytes) -> str | None:
    """Why a text with a mark is not UTF-8; None without such a mark."""
    return next((why for mark, why in REASONS.items() if data.startswith(mark)), None)
