"""Bytes of JSON's grammar (RFC 8259, section 2)."""

QUOTE, BACKSLASH, COMMA, COLON = b'"\\,:'
OPEN, CLOSE, OPEN_LIST, CLOSE_LIST = b"{}[]"
MINUS, PLUS, POINT, ZERO, NINE = b"-+.09"
