"""Checker of a DDL schema's type names and column names, without Spark.

It reports only certain errors: an unknown type name and a duplicate column. Spark checks the rest
in `plan`.
"""

from __future__ import annotations

import contextlib
import re

TYPES = frozenset(
    """
    BOOLEAN TINYINT BYTE SMALLINT SHORT INT INTEGER BIGINT LONG FLOAT REAL DOUBLE
    DECIMAL DEC NUMERIC STRING CHARACTER CHAR VARCHAR BINARY VOID VARIANT
    DATE TIME TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ INTERVAL GEOMETRY GEOGRAPHY
    ARRAY MAP STRUCT
    """.split()  # noqa: SIM905 - a list of literals would take one line for each
)
"""The type names in the data type rule of Spark 4's SQL grammar."""

_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`(?:``|[^`])*`|\w+|\S")
_OPEN, _CLOSE = ("(", "<"), (")", ">")


def tokens(ddl: str) -> list[str]:
    """The words, quoted names, literals and signs of a schema."""
    return _TOKEN.findall(ddl)


def bare_name(token: str) -> str | None:
    """The name that a token is, without backticks; None if it is no name."""
    if token.startswith("`"):
        return token[1:-1].replace("``", "`")
    return token if _is_word(token) else None


def unknown_types(schema: str) -> list[str]:
    """The words in the place of a type that are not a type, as written."""
    if "--" in schema or "/*" in schema:
        return []
    walk = _Walk(tokens(schema))
    with contextlib.suppress(_NotOursError):
        walk.columns()
    return walk.unknown


def names_twice(schema: str) -> list[tuple[str, str]]:
    """(a column's name, its duplicate), as written: Spark and Delta ignore letter case in names.
    Only for top-level columns: nested duplicates may never be used."""
    if "--" in schema or "/*" in schema:
        return []
    walk = _Walk(tokens(schema))
    with contextlib.suppress(_NotOursError):
        walk.columns()
    first: dict[str, str] = {}
    found = []
    for name in walk.names:
        if name.lower() in first:
            found.append((first[name.lower()], name))
        first.setdefault(name.lower(), name)
    return found


class _NotOursError(Exception):
    """Syntax that this parser does not know; Spark decides."""


class _Walk:
    def __init__(self, tokens: list[str]) -> None:
        self._rest = tokens[::-1]
        self.unknown: list[str] = []
        self.names: list[str] = []
        """The names of the top-level columns."""

    def columns(self, *, nested: bool = False) -> None:
        """Parse `name type ..., name: type ...` up to the end or the closing `>`."""
        while True:
            name = self._take()
            bare = bare_name(name)
            if bare is None:
                raise _NotOursError
            if not nested:
                self.names.append(bare)
            if self._next() == ":":
                self._take()
            self._type()
            self._skip_rest_of_column()
            if self._next() != ",":
                return
            self._take()

    def _type(self) -> None:
        word = self._take()
        if not _is_word(word):
            raise _NotOursError
        name = word.upper()
        if name not in TYPES:
            self.unknown.append(word)
        if self._next() != "<":
            return
        self._take()
        if name == "STRUCT":
            if self._next() != ">":
                self.columns(nested=True)
        elif name in ("ARRAY", "MAP"):
            self._type()
            self._skip_rest_of_column()
            if self._next() == ",":
                self._take()
                self._type()
                self._skip_rest_of_column()
        if self._take() != ">":
            raise _NotOursError

    def _skip_rest_of_column(self) -> None:
        """Skip `(10, 2)`, NOT NULL, COMMENT '...' up to the comma or closing bracket."""
        depth = 0
        while (token := self._next()) and (depth or token not in (",", ">")):
            depth += (token in _OPEN) - (token in _CLOSE)
            self._take()

    def _next(self) -> str:
        return self._rest[-1] if self._rest else ""

    def _take(self) -> str:
        if not self._rest:
            raise _NotOursError
        return self._rest.pop()


def _is_word(token: str) -> bool:
    return token.replace("_", "a").isalnum()
