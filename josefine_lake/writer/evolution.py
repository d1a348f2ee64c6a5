"""Schema evolution of a table topic: the columns that its table lacks, or why it cannot take them.

The comparison is that of a pipeline's sink (`pipelines/model/schema_evolution`). delta-rs adds
columns in a commit of their own, before any row that has them; it cannot widen a type, which needs
a table feature that it does not write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable, Field, Schema

from josefine_lake.config.table_topic import Evolution
from pipelines.model.column_types import Type, parts
from pipelines.model.schema_evolution import Evolution as PipelineEvolution
from pipelines.model.schema_evolution import Path, Steps
from pipelines.model.schema_evolution import fit as steps_of
from pipelines.model.table_columns import refused, removed, types_of

_AS_PIPELINES = {Evolution.NONE: PipelineEvolution.NONE, Evolution.ADD: PipelineEvolution.ADD}
_HOW = {
    "`schema_evolution: add`": "josefine.table.schema.evolution=add",
    "types grow with `schema_evolution: widen`": (
        "the table writer widens no type, which needs a table feature that it does not write: use "
        "another location"
    ),
    "the pipeline has": "the topic has",
    "has other columns: ": "its columns differ: ",
}
"""Parts of a pipeline's refusal, and those for a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """`missing`: the columns to add first. `removed`: the table's columns that the topic had once
    and has no more: null in rows that change."""

    missing: tuple[Field, ...] = ()
    removed: tuple[str, ...] = ()


def fit(
    table: DeltaTable, wanted: Schema, said: Mapping[str, Any], evolution: Evolution
) -> Fit | str:
    """What the table needs for rows of `wanted`, or why it cannot take them. `said`: the metadata
    of the chain's newest commit."""
    have, want = fields_of(table.schema()), fields_of(wanted)
    wants, wrote = types_of(want), said.get("columns", ())
    needs = refused(have, wants, f"delta.`{table.table_uri}`")
    if needs:
        return f"it {needs}"
    found = steps_of(
        types_of(have),
        wants,
        wrote,
        _AS_PIPELINES[evolution],
        merges=False,
        fields=said.get("fields", ()),
    )
    if isinstance(found, str):
        for theirs, ours in _HOW.items():
            found = found.replace(theirs, ours)
        return found
    there = types_of(have)
    in_map = next((path for path, _ in found.add if _is_in_map(there, path)), None)
    if in_map:
        # It would be added, but older files could not be merged or compacted ever after.
        return (
            f"its columns differ: {'.'.join(in_map)} is not there, and the table writer adds no "
            "field within a map: use another location"
        )
    other = next(_other_case((), there, wants), None)
    if other:
        return f"its columns differ: {other[0]} is named {other[1]} in the topic"
    gone = removed(have, wants, wrote, said.get("removed", ()))
    return Fit(missing=tuple(_fields(found, wanted)), removed=tuple(gone))


def fields_of(schema: Schema) -> Sequence[Mapping[str, Any]]:
    """The fields of a Delta schema, as its JSON has them."""
    fields: Sequence[Mapping[str, Any]] = json.loads(schema.to_json())["fields"]
    return fields


def _is_in_map(there: Mapping[str, Type], path: Path) -> bool:
    kinds = there
    for name in path[:-1]:
        kind = kinds[name]
        if isinstance(kind, Mapping) and kind["type"] == "map":
            return True
        kinds = parts(kind)
    return False


def _other_case(
    above: Path, have: Mapping[str, Type], want: Mapping[str, Type]
) -> Iterator[tuple[str, str]]:
    """Names that differ in their case: added next to each other they are no table for Spark."""
    names = {name.lower(): name for name in have}
    for name, kind in want.items():
        own = names.get(name.lower())
        if own is None:
            continue
        if own != name:
            yield ".".join((*above, own)), name
        elif isinstance(kind, Mapping) and isinstance(have[own], Mapping):
            yield from _other_case((*above, own), parts(have[own]), parts(kind))


def _fields(steps: Steps, wanted: Schema) -> list[Field]:
    """The whole column for each addition, also of one within a struct: delta-rs merges it."""
    names = {path[0].lower() for path, _ in steps.add}
    return [field for field in wanted.fields if field.name.lower() in names]
