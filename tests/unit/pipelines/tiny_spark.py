"""Spark's columns and frames for unit tests, evaluated in Python: no JVM, rows by hand.

Only what our modules use, by the rules of SQL: null in, null out; a condition that is null is not
true. What Spark itself makes of the same columns is the matter of tests/spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]


class Column:
    """An expression over one row."""

    def __init__(self, value: Callable[[Row], Any], name: str = "") -> None:
        self.value, self.name = value, name

    def _with(self, other: Any, do: Callable[[Any, Any], Any]) -> Column:
        right = as_column(other)

        def value(row: Row) -> Any:
            one, two = self.value(row), right.value(row)
            return None if one is None or two is None else do(one, two)

        return Column(value)

    def _apply(self, do: Callable[[Any], Any]) -> Column:
        def value(row: Row) -> Any:
            found = self.value(row)
            return None if found is None else do(found)

        return Column(value)

    def __eq__(self, other: object) -> Column:  # type: ignore[override]
        return self._with(other, lambda one, two: one == two)

    def __ne__(self, other: object) -> Column:  # type: ignore[override]
        return self._with(other, lambda one, two: one != two)

    __hash__ = object.__hash__

    def __lt__(self, other: Any) -> Column:
        return self._with(other, lambda one, two: one < two)

    def __sub__(self, other: Any) -> Column:
        return self._with(other, lambda one, two: one - two)

    def __and__(self, other: Any) -> Column:
        right = as_column(other)

        def value(row: Row) -> bool | None:
            both = (self.value(row), right.value(row))
            return False if False in both else None if None in both else True

        return Column(value)

    def __or__(self, other: Any) -> Column:
        return ~(~self & ~as_column(other))

    def __invert__(self) -> Column:
        return self._apply(lambda found: not found)

    def isNull(self) -> Column:  # noqa: N802
        return Column(lambda row: self.value(row) is None)

    def isNotNull(self) -> Column:  # noqa: N802
        return Column(lambda row: self.value(row) is not None)

    def eqNullSafe(self, other: Column) -> Column:  # noqa: N802
        return Column(lambda row: self.value(row) == other.value(row))

    def isin(self, *values: Any) -> Column:
        return self._apply(lambda found: found in values)

    def between(self, low: int, high: int) -> Column:
        return self._apply(lambda found: low <= found <= high)

    def startswith(self, text: str) -> Column:
        return self._apply(lambda found: found.startswith(text))

    def rlike(self, pattern: str) -> Column:
        return self._apply(lambda found: re.search(pattern, found) is not None)

    def getField(self, name: str) -> Column:  # noqa: N802
        return self._apply(lambda found: found[name])

    def cast(self, kind: Any) -> Column:
        if kind == "binary":
            return self._apply(str.encode)
        if kind == "string":
            return self._apply(
                lambda found: (
                    found.decode(errors="replace") if isinstance(found, bytes) else str(found)
                )
            )
        return Column(lambda row: ("cast", self.value(row), kind))

    def alias(self, name: str) -> Column:
        return Column(self.value, name)

    def when(self, condition: Column, value: Any) -> Column:
        raise TypeError("only the result of when() has when()")

    def otherwise(self, value: Any) -> Column:
        raise TypeError("only the result of when() has otherwise()")


class Cases(Column):
    """CASE WHEN."""

    def __init__(self, cases: Sequence[tuple[Column, Column]], last: Column) -> None:
        self.cases = cases

        def value(row: Row) -> Any:
            found = (then for condition, then in cases if condition.value(row) is True)
            return next(found, last).value(row)

        super().__init__(value)

    def when(self, condition: Column, value: Any) -> Column:
        return Cases([*self.cases, (condition, as_column(value))], lit(None))

    def otherwise(self, value: Any) -> Column:
        return Cases(self.cases, as_column(value))


def as_column(value: Any) -> Column:
    return value if isinstance(value, Column) else lit(value)


def _found(row: Row, name: str) -> Any:
    """A column by its name in any case."""
    if name in row:
        return row[name]
    return next(value for key, value in row.items() if key.lower() == name.lower())


def named(value: str | Column) -> Column:
    return col(value) if isinstance(value, str) else value


class Functions:
    """In place of `pyspark.sql.functions`."""

    @staticmethod
    def lit(value: Any) -> Column:
        return Column(lambda row: value)

    @staticmethod
    def col(name: str) -> Column:
        first, *parts = re.findall(r"`((?:[^`]|``)+)`", name) or name.split(".")
        column = Column(lambda row: _found(row, first.replace("``", "`")), name)
        for part in parts:
            column = column.getField(part)
        return column.alias(name)

    @staticmethod
    def when(condition: Column, value: Any) -> Column:
        return Cases([(condition, as_column(value))], lit(None))

    @staticmethod
    def coalesce(*columns: Column) -> Column:
        def value(row: Row) -> Any:
            values = (each.value(row) for each in columns)
            return next((each for each in values if each is not None), None)

        return Column(value)

    @staticmethod
    def concat(*columns: Column) -> Column:
        def value(row: Row) -> Any:
            values = [each.value(row) for each in columns]
            return None if None in values else "".join(values)

        return Column(value)

    @staticmethod
    def concat_ws(separator: str, *columns: Column) -> Column:
        def value(row: Row) -> str:
            values = (each.value(row) for each in columns)
            return separator.join(each for each in values if each is not None)

        return Column(value)

    @staticmethod
    def struct(*columns: Column) -> Column:
        return Column(lambda row: {each.name.strip("`"): each.value(row) for each in columns})

    @staticmethod
    def array(*columns: Column) -> Column:
        return Column(lambda row: [each.value(row) for each in columns])

    @staticmethod
    def transform(array: Column, make: Callable[[Column], Column]) -> Column:
        def value(row: Row) -> Any:
            return [make(Column(lambda _, each=each: each)).value(row) for each in array.value(row)]

        return Column(value)

    @staticmethod
    def get(array: Column, index: Column) -> Column:
        return Column(lambda row: array.value(row)[index.value(row)])

    @staticmethod
    def explode(array: Column) -> Column:
        """Of arrays with one element, as `decode` makes them."""
        return Column(lambda row: array.value(row)[0])

    @staticmethod
    def substr(data: Column, start: Column, length: Column | None = None) -> Column:
        def value(row: Row) -> Any:
            found, at = data.value(row), start.value(row) - 1
            end = None if length is None else at + length.value(row)
            return None if found is None else found[at:end]

        return Column(value)

    hex = staticmethod(lambda column: column._apply(lambda data: data.hex().upper()))
    lower = staticmethod(lambda column: column._apply(str.lower))
    octet_length = staticmethod(lambda column: column._apply(len))

    @staticmethod
    def is_valid_utf8(column: Column) -> Column:
        return column._apply(lambda data: data.decode(errors="ignore").encode() == data)

    @staticmethod
    def lpad(column: Column, width: int, pad: str) -> Column:
        return column._apply(lambda text: text.rjust(width, pad)[:width])

    @staticmethod
    def regexp_extract(column: Column, pattern: str, group: int) -> Column:
        def extract(text: str) -> str:
            match = re.search(pattern, text)
            return match[group] if match else ""

        return column._apply(extract)

    @staticmethod
    def regexp_replace(column: Column, pattern: str, by: str) -> Column:
        python = by.replace("$1", r"\1")
        return column._apply(lambda text: re.sub(pattern, python, text))

    @staticmethod
    def to_json(column: Column, options: Mapping[str, str]) -> Column:
        return column._apply(json.dumps)

    @staticmethod
    def min(name: str) -> tuple[Callable[..., Any], str]:
        return min, name

    @staticmethod
    def max(name: str) -> tuple[Callable[..., Any], str]:
        return max, name


functions = Functions()
lit, col = functions.lit, functions.col


class Frame:
    """Rows with columns. `cached`: how often they are held by `persist`."""

    def __init__(
        self, rows: Iterable[Row], columns: Sequence[str] = (), schema: Any = None
    ) -> None:
        self.rows = [dict(row) for row in rows]
        self.columns = [*columns] or [*(self.rows[0] if self.rows else ())]
        self.schema = schema
        self.cached = 0
        self.sparkSession: Any = None

    def _of(self, rows: Iterable[Row], columns: Sequence[str]) -> Frame:
        return Frame(rows, columns, self.schema)

    def __getitem__(self, name: str) -> Column:
        return col(name)

    def where(self, condition: str | Column) -> Frame:
        if isinstance(condition, str):
            text = condition.strip()
            negative = text.lower().startswith("not ")
            column = lit(True) if text == "true" else col(text[4:] if negative else text)
            condition = ~column if negative else column
        return self._of([row for row in self.rows if condition.value(row) is True], self.columns)

    def select(self, *columns: str | Column) -> Frame:
        wanted: list[Column] = []
        for each in columns:
            if isinstance(each, str) and each == "*":
                wanted += [col(f"`{name}`").alias(name) for name in self.columns]
            else:
                wanted.append(named(each))
        names = [each.name.rpartition(".")[2].strip("`") for each in wanted]
        made = [
            {name: each.value(row) for name, each in zip(names, wanted, strict=True)}
            for row in self.rows
        ]
        return self._of(made, names)

    def withColumn(self, name: str, column: Column) -> Frame:  # noqa: N802
        rows = [{**row, name: column.value(row)} for row in self.rows]
        return self._of(rows, list(dict.fromkeys([*self.columns, name])))

    def drop(self, *names: str) -> Frame:
        rows = [{k: v for k, v in row.items() if k not in names} for row in self.rows]
        return self._of(rows, [name for name in self.columns if name not in names])

    def unionByName(self, other: Frame) -> Frame:  # noqa: N802
        return self._of([*self.rows, *other.rows], self.columns)

    def orderBy(self, *names: str) -> Frame:  # noqa: N802
        return self._of(sorted(self.rows, key=lambda row: [row[n] for n in names]), self.columns)

    def groupBy(self, *keys: str) -> Grouped:  # noqa: N802
        return Grouped(self, keys)

    def coalesce(self, count: int) -> Frame:
        return self

    def persist(self) -> Frame:
        self.cached += 1
        return self

    def unpersist(self) -> Frame:
        self.cached -= 1
        return self

    def count(self) -> int:
        return len(self.rows)

    def isEmpty(self) -> bool:  # noqa: N802
        return not self.rows

    def collect(self) -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in self.columns) for row in self.rows]

    def first(self) -> Any:
        from types import SimpleNamespace

        return SimpleNamespace(**self.rows[0]) if self.rows else None


class Grouped:
    """The result of `groupBy`."""

    def __init__(self, frame: Frame, keys: Sequence[str]) -> None:
        self.frame, self.keys = frame, keys

    def agg(self, *made: tuple[Callable[..., Any], str]) -> Frame:
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.frame.rows:
            groups.setdefault(tuple(row[key] for key in self.keys), []).append(row)
        names = [*self.keys, *(f"{do.__name__}({name})" for do, name in made)]
        rows = [
            dict(zip(names, (*k, *(do(r[n] for r in rows) for do, n in made)), strict=True))
            for k, rows in groups.items()
        ]
        return Frame(rows, names)
