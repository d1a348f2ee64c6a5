"""The statistics of a Parquet file in Delta's form, from the file's footer.

Readers skip files by them: the number of rows, the nulls of the first columns and, where they are
numbers, texts, dates or times, their bounds. A bound that is not certain is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

TEXT_MAX = 32
"""Characters of a text's bound; Delta for Spark cuts there, too."""
_LAST = "\U0010ffff"
"""The character that no other one comes after."""
Path = tuple[str, ...]


def statistics(footer: Any, columns_max: int) -> str:
    """JSON. `footer`: pyarrow's metadata of a file; `columns_max`: the number of columns that have
    statistics, the first ones; -1: all."""
    low: dict[str, Any] = {}
    top: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    leaves = list(_leaves(footer.schema.to_arrow_schema()))
    for path, at in leaves if columns_max < 0 else leaves[:columns_max]:
        if at is None or not groups:
            continue
        known = [group.column(at).statistics for group in groups]
        if any(each is None or not each.has_null_count for each in known):
            continue
        _put(nulls, path, sum(each.null_count for each in known))
        bounds = _bounds(known)
        if bounds is not None:
            _put(low, path, bounds[0])
            _put(top, path, bounds[1])
    found = {"numRecords": footer.num_rows}
    parts = {"minValues": low, "maxValues": top, "nullCount": nulls}
    return json.dumps({**found, **{name: part for name, part in parts.items() if part}})


def _leaves(schema: Any) -> Iterator[tuple[Path, int | None]]:
    """(path, place in the file) of the columns, in order. A list or map counts as one column
    without a place."""
    import pyarrow as pa

    at = 0

    def below(path: Path, kind: Any) -> Iterator[tuple[Path, int | None]]:
        nonlocal at
        if pa.types.is_struct(kind):
            for inner in kind:
                yield from below((*path, inner.name), inner.type)
        elif pa.types.is_nested(kind):
            at += _width(kind)
            yield path, None
        else:
            at += 1
            yield path, at - 1

    for each in schema:
        yield from below((each.name,), each.type)


def _width(kind: Any) -> int:
    inside = [kind.field(at).type for at in range(kind.num_fields)]
    return sum(map(_width, inside)) if inside else 1


def _put(into: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def _bounds(known: list[Any]) -> tuple[Any, Any] | None:
    """The bounds of one column over all row groups; None if they are not certain."""
    # A group of nulls alone has no bounds, and needs none.
    filled = [each for each in known if each.num_values]
    if not filled or not all(each.has_min_max for each in filled):
        return None
    try:
        values = [(each.min, each.max) for each in filled]
    except (ValueError, OverflowError):  # Python has no dates and times after the year 9999
        return None
    form = _FORMS.get(type(values[0][0]))
    if form is None:
        return None
    least, most = form(min(low for low, _ in values), max(top for _, top in values))
    return None if least is None or most is None else (least, most)


def _number(least: float, most: float) -> tuple[Any, Any]:
    is_certain = least == least and most == most and abs(least) != _INF and abs(most) != _INF
    return (least, most) if is_certain else (None, None)


def _text(least: str, most: str) -> tuple[Any, Any]:
    if len(most) > TEXT_MAX:
        # A cut bound would be below the value, so it gets the last of all characters.
        most = "" if most[TEXT_MAX] == _LAST else most[:TEXT_MAX] + _LAST
    return least[:TEXT_MAX], most or None


def _day(least: date, most: date) -> tuple[Any, Any]:
    return least.isoformat(), most.isoformat()


def _time(least: datetime, most: datetime) -> tuple[Any, Any]:
    # Delta has milliseconds there, so the upper bound is rounded up.
    try:
        up = most + timedelta(microseconds=-most.microsecond % 1000)
    except OverflowError:
        return None, None
    return _millis(least), _millis(up)


def _millis(at: datetime) -> str:
    zone = "" if at.tzinfo is None else "Z"
    plain = at if at.tzinfo is None else at.astimezone(UTC)
    return plain.replace(tzinfo=None).isoformat(timespec="milliseconds") + zone


_INF = float("inf")
_FORMS: Mapping[type, Callable[[Any, Any], tuple[Any, Any]]] = {
    int: _number,
    float: _number,
    str: _text,
    date: _day,
    datetime: _time,
}
"""Python's type of a bound → its form in the log. Booleans, bytes and decimals have none."""
