"""The rows of an answer as text: an aligned table, CSV, or one JSON object a line.

Rules: DuckDB writes numbers and times itself, so decimals have all digits and times their zone;
NULL differs from each text: in a table the text NULL has quotes, in CSV NULL is empty and an
empty text is `""`. In JSON decimals are numbers with all digits, and bytes that are no text are
base64 in `NAME_base64`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from josefine_cli.base.output import printable, put_bytes

BATCH_ROWS = 10_000
NUMBERS = frozenset({
    "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger",
    "ubigint", "uhugeint", "decimal", "double", "float", "bignum",
})  # fmt: skip
"""DuckDB's types of numbers."""
NESTED = frozenset({"struct", "list", "array", "map", "union"})
NOT_FINITE = frozenset({"nan", "inf", "-inf"})
UTC = "+00"
"""The zone of a TIMESTAMPTZ as DuckDB writes it in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """`kind`: DuckDB's name of its type, in small letters."""

    name: str
    kind: str


class Result:
    """The rows of one relation of DuckDB, fetched once."""

    def __init__(self, relation: Any, limit: int) -> None:
        """`limit`: rows at most; 0: all."""
        self.columns = [
            Column(name=name, kind=kind.id)
            for name, kind in zip(relation.columns, relation.types, strict=True)
        ]
        self._relation = relation
        self._limit = limit
        self.is_cut = False
        """Whether there were more rows; known after the last one."""

    @property
    def is_plan(self) -> bool:
        """Whether it is EXPLAIN's: one text of several lines."""
        return [each.name for each in self.columns] == ["explain_key", "explain_value"]

    def texts(self) -> Iterator[Sequence[str | None]]:
        """Each row with DuckDB's texts."""
        yield from self._fetched(range(0))

    def objects(self) -> Iterator[str]:
        """Each row as a JSON object."""
        kept = [at for at, each in enumerate(self.columns) if each.kind in {*NESTED, "blob"}]
        names = _distinct([each.name for each in self.columns])
        for row in self._fetched(kept):
            yield _object(names, self.columns, row)

    def _fetched(self, kept: Sequence[int]) -> Iterator[Sequence[Any]]:
        """Rows with DuckDB's texts; of the columns at `kept` with (Arrow's value, its type)."""
        wanted = ", ".join(
            f'#{at + 1} AS "{at}"' if at in kept else f'CAST(#{at + 1} AS VARCHAR) AS "{at}"'
            for at in range(len(self.columns))
        )
        relation = self._relation
        if self._limit:
            relation = relation.limit(self._limit + 1)
        count = 0
        for batch in relation.project(wanted).to_arrow_reader(BATCH_ROWS):
            columns = [
                [(value, column.type) for value in column.to_pylist()]
                if at in kept
                else column.to_pylist()
                for at, column in enumerate(batch.columns)
            ]
            for row in zip(*columns, strict=True):
                count += 1
                if self._limit and count > self._limit:
                    self.is_cut = True
                    return
                yield row


def csv_lines(columns: Sequence[Column], rows: Iterable[Sequence[str | None]]) -> Iterator[str]:
    """A header and a line for each row (RFC 4180)."""
    yield ",".join(_csv(each.name) for each in columns)
    for row in rows:
        yield ",".join(map(_csv, row)) or '""'


def shown(text: str | None) -> str:
    """A cell of a table for people."""
    if text is None:
        return "NULL"
    return "'NULL'" if text == "NULL" else printable(text.encode())


def _csv(text: str | None) -> str:
    if text is None:
        return ""
    if text and not any(each in text for each in ',"\r\n'):
        return text
    escaped = text.replace('"', '""')
    return f'"{escaped}"'


def _object(names: Sequence[str], columns: Sequence[Column], row: Sequence[Any]) -> str:
    parts = []
    for name, column, cell in zip(names, columns, row, strict=True):
        if column.kind == "blob":
            one: dict[str, Any] = {}
            put_bytes(one, name, cell[0])
            parts += [f"{_quoted(key)}:{_quoted(each)}" for key, each in one.items()]
        elif column.kind in NESTED:
            parts.append(f"{_quoted(name)}:{_nested(cell)}")
        else:
            parts.append(f"{_quoted(name)}:{_scalar(column.kind, cell)}")
    return "{" + ",".join(parts) + "}"


def _nested(cell: tuple[Any, Any]) -> str:
    from josefine_arrow.formats.json.writer import json_text

    return json_text(*cell)


def _scalar(kind: str, text: str | None) -> str:
    if text is None or (kind in NUMBERS and text in NOT_FINITE):
        return "null"
    if kind in NUMBERS or kind == "boolean":
        return text
    if kind == "timestamp with time zone" and text.endswith(UTC):
        return _quoted(text.removesuffix(UTC).replace(" ", "T", 1) + "Z")
    return _quoted(text)


def _quoted(value: Any) -> str:
    text: str = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode()


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of which no two are the same: an object has each once."""
    found: list[str] = []
    for name in names:
        number, own = 1, name
        while own in found:
            number, own = number + 1, f"{name}_{number}"
        found.append(own)
    return found
