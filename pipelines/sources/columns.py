"""The columns of a source, as in SQL."""

from __future__ import annotations

_DDL = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT"
)
_HEADERS_DDL = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


def columns_ddl(*, headers: bool) -> str:
    """The columns of the josefine source, which every source has."""
    return _DDL + (_HEADERS_DDL if headers else "")
