"""A schema in Spark's DDL as Arrow types, without Spark: `id BIGINT, lines ARRAY<STRUCT<a: INT>>`.

Source: the rules `colTypeList` and `dataType` of Spark 4's SQL grammar. CHAR and VARCHAR are
strings; NOT NULL and COMMENT have no effect, because a decoded column can be null.
"""

from __future__ import annotations

import pyarrow as pa

from josefine_arrow.schema.ddl import bare_name, tokens

_SCALARS = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "BYTE": pa.int8(),
    "SMALLINT": pa.int16(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "CHAR": pa.string(),
    "CHARACTER": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_LTZ": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "VARIANT": pa.json_(),
    "VOID": pa.null(),
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_DIGITS_MAX = 38


class DdlError(ValueError):
    """The message states what is wrong in the schema."""


def struct_of(ddl: str) -> pa.StructType:
    """The columns of a schema. Raises DdlError."""
    parser = _Parser(tokens(ddl))
    fields = parser.columns()
    parser.end()
    names = [field.name.lower() for field in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DdlError(f"column {twice} is there twice")
    return pa.struct(fields)


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._rest = tokens[::-1]

    def end(self) -> None:
        if self._rest:
            raise DdlError(f"unexpected `{self._rest[-1]}`")

    def columns(self) -> list[pa.Field]:
        """`name type ..., name: type ...` up to the end or the closing `>`."""
        found = []
        while True:
            name = self._name()
            self._take_if(":")
            found.append(pa.field(name, self._type()))
            self._skip_options()
            if not self._take_if(","):
                return found

    def _name(self) -> str:
        token = self._take("a column's name")
        name = bare_name(token)
        if name is None:
            raise DdlError(f"expected a column's name, found `{token}`")
        return name

    def _type(self) -> pa.DataType:
        word = self._take("a type")
        name = word.upper()
        if name == "ARRAY":
            self._expect("<")
            inner = self._type()
            self._skip_options()
            self._expect(">")
            return pa.list_(inner)
        if name == "MAP":
            return self._map()
        if name == "STRUCT":
            self._expect("<")
            fields = [] if self._next() == ">" else self.columns()
            self._expect(">")
            return pa.struct(fields)
        numbers = self._numbers()
        if name in _DECIMALS:
            return _decimal(*numbers)
        if name not in _SCALARS:
            raise DdlError(f"type {word} is not read")
        return _SCALARS[name]

    def _map(self) -> pa.DataType:
        self._expect("<")
        key = self._type()
        self._expect(",")
        value = self._type()
        self._skip_options()
        self._expect(">")
        return pa.map_(key, value)

    def _numbers(self) -> list[int]:
        """`(10, 2)`, or nothing."""
        found: list[int] = []
        if not self._take_if("("):
            return found
        while not self._take_if(")"):
            token = self._take("a number")
            if token.isdecimal():
                found.append(int(token))
            elif token != ",":
                raise DdlError(f"expected a number, found `{token}`")
        return found

    def _skip_options(self) -> None:
        """NOT NULL, COMMENT '...', DEFAULT ... up to the comma or bracket."""
        depth = 0
        while (token := self._next()) and (depth or token not in (",", ">")):
            depth += (token == "(") - (token == ")")
            self._rest.pop()

    def _expect(self, token: str) -> None:
        found = self._take(f"`{token}`")
        if found != token:
            raise DdlError(f"expected `{token}`, found `{found}`")

    def _take_if(self, token: str) -> bool:
        if self._next() != token:
            return False
        self._rest.pop()
        return True

    def _next(self) -> str:
        return self._rest[-1] if self._rest else ""

    def _take(self, what: str) -> str:
        if not self._rest:
            raise DdlError(f"expected {what} at the end")
        return self._rest.pop()


def _decimal(precision: int = 10, scale: int = 0) -> pa.DataType:
    if not (1 <= precision <= _DIGITS_MAX and scale <= precision):
        raise DdlError(f"no DECIMAL({precision},{scale}): at most {_DIGITS_MAX} digits")
    return pa.decimal128(precision, scale)
