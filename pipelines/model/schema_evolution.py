"""Schema evolution: whether a table accepts a sink's rows, and the changes that it needs. Pure.

Names are compared without case, as in Spark, and in any order, also those of a struct's fields. A
type fits if the table's column stores every value of it (`column_types.holds`). A column or field
that only the table has is not written: somebody added it on purpose. It is an error if the sink
itself wrote it before and no longer does. The columns of a merged table are its aggregates: a new
one would miss the rows that were merged before, a removed one would no longer be updated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pipelines.base.quoting import quoted_path
from pipelines.model.column_types import VOID, Type, holds, parts, shape, sql, wider

Path = tuple[str, ...]
"""A column and, for a part of its type, the names down to it, as SQL writes them."""


class Evolution(Enum):
    """The changes that the file allows. Each level includes the previous ones."""

    NONE = "none"
    ADD = "add"  # columns and fields may be added and removed
    WIDEN = "widen"  # a type may be widened, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The changes to make first: (path, type as in SQL). `retype`: those of `widen`, and columns of
    type VOID that get a type. `settings`: the table's, which these changes need."""

    add: tuple[tuple[Path, str], ...] = ()
    retype: tuple[tuple[Path, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


NO_STEPS = Steps()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """A path at which the types differ. `have`: None if the table has nothing there; `to`: the type
    with which the table would store the rows, None if there is none."""

    path: Path
    have: Type | None
    want: Type
    to: str | None

    @property
    def is_wider(self) -> bool:
        return self.have not in (None, VOID)

    def __str__(self) -> str:
        there = "not there" if self.have is None else sql(self.have)
        return f"{'.'.join(self.path)} is {there}, the pipeline has {sql(self.want)}"


def fit(
    have: Mapping[str, Type],
    wants: Mapping[str, Type],
    wrote: Collection[str],
    evolution: Evolution,
    *,
    merges: bool,
    fields: Collection[str] = (),
    exact: bool = False,
) -> Steps | str:
    """The changes before rows of `wants` can be written to a table of `have`, or why they cannot.

    `wrote`: the columns that the sink's last commit wrote; `fields`: the fields of these, as in
    `fields_of`. `exact`: the target stores no value of another type.
    """
    found = list(_differences((), _struct(have), _struct(wants), exact=exact))
    gone = _gone(have, wants, wrote, fields)
    comes, grows = ([d for d in found if d.is_wider is what] for what in (False, True))
    advice = []
    # Any advice refuses the rows as a whole: the table never gets only a part of the steps.
    if any(each.to is None for each in found):
        advice.append("no column changes to such a type: write to a new table")
    if merges and (comes or gone):
        advice.append("columns of a merged table neither come nor go: write to a new table")
    elif evolution is Evolution.NONE and (comes or gone):
        how = "columns come and go with `schema_evolution: add`"
        advice.append(f"{how}; those that go are null in new rows" if gone else how)
    if any(each.to for each in grows) and evolution is not Evolution.WIDEN:
        advice.append("types grow with `schema_evolution: widen`")
    if not advice:
        return _steps(found)
    texts = [*map(str, found), *(f"{name} is written no more" for name in gone)]
    return f"has other columns: {', '.join(texts)} ({'; '.join(advice)})"


def stores(have: Type, want: Type) -> bool:
    """Whether a column of type `have` stores every value of type `want` without loss, each field of
    a struct in the field of its name."""
    top = ({"value": kind} for kind in (have, want))
    return not any(_differences((), *map(_struct, top), exact=False))


def alterations(table: str, steps: Steps) -> Iterator[str]:
    """The SQL that makes the changes. `table`: as SQL writes it."""
    if steps.settings:
        settings = ", ".join(f"'{name}' = '{value}'" for name, value in steps.settings)
        yield f"ALTER TABLE {table} SET TBLPROPERTIES ({settings})"
    for path, kind in steps.retype:
        yield f"ALTER TABLE {table} ALTER COLUMN {quoted_path(path)} TYPE {kind}"
    if steps.add:
        columns = ", ".join(f"{quoted_path(path)} {kind}" for path, kind in steps.add)
        yield f"ALTER TABLE {table} ADD COLUMNS ({columns})"


def settings_for(columns: Iterable[tuple[Path, Type]]) -> Iterator[tuple[str, str]]:
    """The settings of a Delta table that columns need and that Delta does not make by itself."""
    every = [each for path, kind in columns for each in _all(path, kind)]
    if any(set(path[-1]) & set(" ,;{}()\n\t=") for path, _ in every):
        yield "delta.columnMapping.mode", "name"
    if any(shape(kind) == "timestamp_ntz" for _, kind in every):
        yield "delta.feature.timestampNtz", "supported"


def fields_of(kinds: Mapping[str, Type]) -> list[str]:
    """The fields within columns, each as its quoted path."""
    every = (path for name, kind in kinds.items() for path, _ in _all((name,), kind))
    return [quoted_path(path) for path in every if len(path) > 1]


def _all(path: Path, kind: Type) -> Iterator[tuple[Path, Type]]:
    yield path, kind
    if isinstance(kind, Mapping) and kind["type"] in ("struct", "array", "map"):
        for name, part in parts(kind).items():
            yield from _all((*path, name), part)


def _struct(kinds: Mapping[str, Type]) -> Type:
    return {
        "type": "struct",
        "fields": [{"name": name, "type": kind} for name, kind in kinds.items()],
    }


def _differences(path: Path, have: Type, want: Type, *, exact: bool) -> Iterator[_Difference]:
    """Where the types differ; a difference within a part is one of the part alone."""
    kind = shape(have)
    is_top = not path
    if kind != shape(want) or kind not in ("struct", "array", "map") or (exact and not is_top):
        is_same = sql(have, quotes=False) == sql(want, quotes=False)
        if is_same or (not exact and _is_simple(have, want) and holds(have, want)):
            return
        if not is_top:
            yield _Difference(path=path, have=have, want=want, to=_to(have, want, exact=exact))
        return
    there, here = parts(have), parts(want)
    names = {name.lower(): name for name in there}
    for name, part in here.items():
        own = names.get(name.lower())
        if own is None:
            yield _Difference(path=(*path, name), have=None, want=part, to=sql(part))
        else:
            yield from _differences((*path, own), there[own], part, exact=exact)


def _is_simple(have: Type, want: Type) -> bool:
    return sql(want) == VOID or (isinstance(have, str) and isinstance(want, str))


def _to(have: Type, want: Type, *, exact: bool) -> str | None:
    if exact:
        return None
    if have == VOID:
        return sql(want)
    return wider(have, want) if isinstance(have, str) and isinstance(want, str) else None


def _gone(
    have: Mapping[str, Type],
    wants: Mapping[str, Type],
    wrote: Collection[str],
    fields: Collection[str],
) -> list[str]:
    """What the sink wrote before, the table still has and the rows have no more."""
    there, now = ({name.lower() for name in each} for each in (have, wants))
    gone = [name for name in wrote if name.lower() in there and name.lower() not in now]
    of_table, of_rows = ({each.lower() for each in fields_of(kinds)} for kinds in (have, wants))
    # A field of a column that is gone as a whole is not named once more.
    whole = [quoted_path((name,)).lower() + "." for name in gone]
    for field in fields:
        lower = field.lower()
        if lower in of_table - of_rows and not lower.startswith(tuple(whole)):
            gone.append(field)
            whole.append(lower + ".")
    return gone


def _steps(found: Sequence[_Difference]) -> Steps:
    """`found`: differences that all have a type to change to."""
    add = tuple((each.path, str(each.to)) for each in found if each.have is None)
    retype = tuple((each.path, str(each.to)) for each in found if each.have is not None)
    stored = [(each.path, str(each.to) if each.is_wider else each.want) for each in found]
    settings = tuple(settings_for(stored))
    if any(each.is_wider for each in found):
        settings = (*settings, ("delta.enableTypeWidening", "true"))
    return Steps(add=add, retype=retype, settings=settings)


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
