"""Schema evolution: whether a table accepts a sink's rows, and the changes that it needs. Pure.

Names are compared without case, as in Spark; types by their SQL text. A column that only the table
has stays null: somebody added it on purpose. It is an error if the sink itself wrote that column
before and no longer does. The columns of a merged table are its aggregates: a new one would miss
the rows that were merged before, a removed one would no longer be updated.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Evolution(Enum):
    """The changes that the file allows. Each level includes the previous ones."""

    NONE = "none"
    ADD = "add"  # columns may be added and removed
    WIDEN = "widen"  # a column's type may be widened, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The changes to make first: (column, type as in SQL)."""

    add: tuple[tuple[str, str], ...] = ()
    widen: tuple[tuple[str, str], ...] = ()


_WIDER: Mapping[str, tuple[str, ...]] = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
}
"""The in-place type changes of Delta that change no value."""

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def fit(
    have: Mapping[str, str],
    wants: Mapping[str, str],
    wrote: Collection[str],
    evolution: Evolution,
    *,
    merges: bool,
) -> Steps | str:
    """The changes before rows of `wants` can be written to a table of `have`, or why they cannot.

    `wrote`: the columns that the sink's last commit wrote.
    """
    there = {name.lower(): kind for name, kind in have.items()}
    now = {name.lower() for name in wants}
    missing = {n: t for n, t in wants.items() if n.lower() not in there}
    other = {n: t for n, t in wants.items() if there.get(n.lower(), t) != t}
    wider = {n: t for n, t in other.items() if _is_wider(there[n.lower()], t)}
    gone = [n for n in wrote if n.lower() in there and n.lower() not in now]
    differences = [
        f"{n} is {there.get(n.lower(), 'not there')}, the pipeline has {t}"
        for n, t in wants.items()
        if n in missing or n in other
    ]
    advice = []
    # Any advice refuses the rows as a whole: the table never gets only a part of the steps.
    if len(wider) < len(other):
        advice.append("no column changes to such a type: write to a new table")
    if merges and (missing or gone):
        advice.append("columns of a merged table neither come nor go: write to a new table")
    elif evolution is Evolution.NONE and (missing or gone):
        how = "columns come and go with `schema_evolution: add`"
        advice.append(f"{how}; those that go are null in new rows" if gone else how)
    if wider and evolution is not Evolution.WIDEN:
        advice.append("types grow with `schema_evolution: widen`")
    if not advice:
        return Steps(add=tuple(missing.items()), widen=tuple(wider.items()))
    differences += [f"{name} is written no more" for name in gone]
    return f"has other columns: {', '.join(differences)} ({'; '.join(advice)})"


def other_rows(said: Mapping[str, Any], mode: str, keys: Collection[str]) -> str:
    """Why a table's rows do not belong to this mode and these keys; "" if they do.

    `said`: the settings in the sink's last commit, empty without one. Versions before mode upsert
    recorded none.
    """
    was = said.get("mode")
    if not said or (was is None and mode != "upsert"):
        return ""
    if was != mode:
        had = f"mode {was}" if was else "another mode"
        return f"was written with {had}, the file has {mode}: write to a new table"
    before = list(said.get("keys", ()))
    if sorted(before) == sorted(keys):
        return ""
    return (
        f"has a row for each {', '.join(before)}, the file's keys are {', '.join(keys)}: write to "
        "a new table"
    )


def _is_wider(old: str, new: str) -> bool:
    if new in _WIDER.get(old, ()):
        return True
    before, after = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if before is None or after is None:
        return False
    digits, places = (int(after[n]) - int(before[n]) for n in (1, 2))
    return digits >= places >= 0
