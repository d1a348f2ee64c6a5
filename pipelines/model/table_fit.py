"""What a table needs before it can take a sink's rows, or why it cannot, with the SQL that helps.

Pure: the table's schema and settings are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipelines.model.column_types import Type
from pipelines.model.schema_evolution import NO_STEPS, Evolution, Steps, alterations, fit
from pipelines.model.table_columns import Fields, refused, removed, types_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """What rows need of a table. `removed`: the columns that become null in rows that change."""

    steps: Steps = NO_STEPS
    removed: tuple[str, ...] = ()


def fitting(
    fields: Fields,
    wants: Mapping[str, Type],
    said: Mapping[str, Any],
    evolution: Evolution,
    *,
    merges: bool,
    table: str,
    has: Callable[[str, str], bool],
) -> Fitting | str:
    """Compare the columns `wants` with a table's. `said`: the metadata of the sink's last commit;
    `table`: as in SQL; `has`: whether the table has a setting, by name and value."""
    wrong = refused(fields, wants, table)
    if wrong:
        return wrong
    wrote = said.get("columns", ())

    def steps_by(what: Evolution) -> Steps | str:
        kinds, parts = types_of(fields), said.get("fields", ())
        found = fit(kinds, wants, wrote, what, merges=merges, fields=parts)
        if isinstance(found, str):
            return found
        settings = tuple(each for each in found.settings if not has(*each))
        return replace(found, settings=settings)

    steps = steps_by(evolution)
    if isinstance(steps, Steps):
        nulls = removed(fields, wants, wrote, said.get("removed", ()))
        return Fitting(steps=steps, removed=tuple(nulls))
    # The file does not allow the change. If widening would do, the refusal shows the statements.
    allowed = steps_by(Evolution.WIDEN)
    if isinstance(allowed, str) or allowed == NO_STEPS:
        return steps
    lines = (f"{line};" for line in alterations(table, allowed))
    return "\n  ".join([f"{steps}. Set it in the file, or change the table:", *lines])
