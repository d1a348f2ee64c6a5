"""The decision whether the partials of an aggregated table are merged without Spark, and how. Pure.

A batch's partials are few, and MERGE in Spark plans, generates code and shuffles for them as for
billions. Arrow groups them with the table's rows. Where Spark stops the run because a sum
overflows, Arrow wraps it around, and its results for NaN, decimals and times beyond year 9999 are
others than Spark's. So it merges plain types alone, and only where no result can leave its range;
everything else is merged by Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from pipelines.model.direct_append import TableRules, why_not_appended
from pipelines.model.table_columns import Fields

ROWS_MAX = 250_000
"""Partials of a batch, which are in the driver's memory."""
BYTES_MAX = 64 << 20
"""Of the same, in memory: a text may be long."""
TABLE_BYTES_MAX = 64 << 20
"""Of the table's files, all of which a MERGE may rewrite."""
TABLE_ROWS_MAX = 2_000_000
"""Of its rows, which are in the driver's memory, too."""
TABLE_MEMORY_MAX = 512 << 20
"""Of the same, in bytes."""
_KEY_TYPES = {"boolean", "byte", "date", "integer", "long", "short", "string", "timestamp"}
_ORDERED = _KEY_TYPES - {"boolean"}
_TYPES = {"count": {"long"}, "sum": {"long"}, "min": _ORDERED, "max": _ORDERED}
_RANGES: Mapping[str, tuple[Any, Any]] = {
    "long": (-(1 << 63), (1 << 63) - 1),
    "date": (date(1, 1, 1), date(9999, 12, 30)),
    "timestamp": (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)),
}
"""Type → the values between which results have to stay."""
MERGED: Mapping[str, str] = {
    "count": "t.{c} + s.{c}",
    "sum": "coalesce(t.{c} + s.{c}, t.{c}, s.{c})",
    "min": "least(t.{c}, s.{c})",
    "max": "greatest(t.{c}, s.{c})",
}
"""How a row of the table (t) and one of the batch (s) become one, in Spark's SQL; least/greatest
skip nulls."""
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ASKED = {"delta.appendOnly", "delta.enableChangeDataFeed"}
"""Properties that ask nothing of an append, but something of changed rows."""

Bounds = tuple[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """How partials are merged: the columns by which a row is the same, column → function."""

    keys: tuple[str, ...]
    functions: Mapping[str, str]

    def ranged(self, fields: Fields) -> Iterator[tuple[str, str, bool]]:
        """(column, type, whether values are added) of each column whose values have a range."""
        kinds = {each["name"]: each["type"] for each in fields}
        for name, kind in kinds.items():
            is_added = self.functions.get(name) in ("count", "sum")
            if is_added or kind in ("date", "timestamp"):
                yield name, kind, is_added


def why_not_folded(fold: Fold, table: TableRules, rows: Fields) -> str:
    """Why Spark merges rows with these columns into the table; "" if Arrow may."""
    wrong = why_not_appended(table, rows)
    if wrong:
        return wrong
    asked = sorted(n for n in _ASKED if table.properties.get(n, "false").lower() != "false")
    if asked:
        return f"its property {asked[0]} is set"
    kinds = {each["name"]: each["type"] for each in table.columns}
    wanted = dict.fromkeys(fold.keys, _KEY_TYPES)
    wanted |= {name: _TYPES[function] for name, function in fold.functions.items()}
    if wanted.keys() != kinds.keys():
        return "it has other columns"
    for name, kind in kinds.items():
        if not isinstance(kind, str) or kind not in wanted[name]:
            return f"its column {name} is of a type that Spark merges"
        if not _PLAIN_NAME.fullmatch(name):
            return f"its column {name} has a name that needs quotes"
    # Of a column without statistics nobody knows the bounds.
    if 0 <= table.indexed_columns < len(kinds):
        return "not all of its columns have statistics"
    return ""


def why_out_of_range(
    ranged: Iterable[tuple[str, str, bool]],
    there: Mapping[str, Bounds | None],
    rows: Mapping[str, Bounds],
) -> str:
    """Why a result may leave the range of its type; "" if none can. `there`, `rows`: the least and
    the greatest value of the table's and the batch's columns, (None, None) for nulls alone; a
    column is None in `there` if its bounds are not known."""
    for name, kind, is_added in ranged:
        table, batch = there[name], rows[name]
        if table is None:
            return f"the bounds of {name} are not known"
        least, greatest = _RANGES[kind]
        some = [each for each in (table, batch) if each[0] is not None]
        if is_added:
            # A row of one side alone has a value of the type.
            low, high = (sum(each[at] for each in some) for at in (0, 1))
        elif some:
            low, high = min(e[0] for e in some), max(e[1] for e in some)
        else:
            continue
        if low < least or high > greatest:
            return f"{name} may leave the range of its type"
    return ""
