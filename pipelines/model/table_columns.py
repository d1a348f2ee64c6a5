"""The columns of a Delta table that the table itself fills, and those that must be given. Pure.

A sink writes the columns of its rows and no others: a generated column is computed, an identity
column is counted, a column with a default gets it, any other becomes null, each in new rows only.

Source: Delta's protocol, "Generated Columns", "Identity Columns", "Default Columns": the metadata
of a field. `fields` are those of a table's schema as `StructType.jsonValue` has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pipelines.base.quoting import quoted_path
from pipelines.model.column_types import Type, parts
from pipelines.model.schema_evolution import Path

Fields = Sequence[Mapping[str, Any]]

_GENERATED = "delta.generationExpression"
_IDENTITY = "delta.identity.start"
_BY_DEFAULT = "delta.identity.allowExplicitInsert"
_DEFAULT = "CURRENT_DEFAULT"


def types_of(fields: Fields) -> dict[str, Type]:
    """Column → its type."""
    return {field["name"]: field["type"] for field in fields}


def refused(fields: Fields, wants: Mapping[str, Type], table: str) -> str:
    """Why no row of the columns `wants` can be written; "" if rows can. `table`: as in SQL."""
    counted = list(_counted(fields, wants))
    if counted:
        return f"has a column `{counted[0]}` GENERATED ALWAYS AS IDENTITY: leave it out of the rows"
    missing = list(_required((), fields, wants))
    if not missing:
        return ""
    names = ", ".join(".".join(path) for path in missing)
    many = "columns that are" if len(missing) > 1 else "a column that is"
    steps = "".join(
        f"\n  ALTER TABLE {table} ALTER COLUMN {quoted_path(path)} DROP NOT NULL;"
        for path in missing
    )
    return (
        f"has {many} NOT NULL without a default, which the rows do not have: {names}. Select a "
        f"value for it, or let it be null:{steps}"
    )


def removed(
    fields: Fields, wants: Mapping[str, Type], wrote: Collection[str], before: Collection[str]
) -> list[str]:
    """The table's columns that the sink wrote once and writes no more: null in rows that it
    changes, for they would keep a value of an earlier row. `before`: this list at the last commit,
    which wrote the columns `wrote`."""
    once = {name.lower() for name in (*wrote, *before)} - {name.lower() for name in wants}
    return [field["name"] for field in fields if field["name"].lower() in once and _is_free(field)]


def _is_free(field: Mapping[str, Any]) -> bool:
    """Whether the column takes a null."""
    made = {_GENERATED, _IDENTITY} & field.get("metadata", {}).keys()
    return bool(field.get("nullable", True)) and not made


def _counted(fields: Fields, wants: Mapping[str, Type]) -> Iterator[str]:
    now = {name.lower() for name in wants}
    for field in fields:
        metadata = field.get("metadata", {})
        is_counted = _IDENTITY in metadata and not metadata.get(_BY_DEFAULT)
        if is_counted and field["name"].lower() in now:
            yield field["name"]


def _required(path: Path, fields: Fields, wants: Mapping[str, Type]) -> Iterator[Path]:
    """The columns and fields that a row must have and does not."""
    now = {name.lower(): kind for name, kind in wants.items()}
    for field in fields:
        here = (*path, field["name"])
        given = now.get(field["name"].lower())
        if given is None:
            made = {_GENERATED, _IDENTITY, _DEFAULT} & field.get("metadata", {}).keys()
            if not field.get("nullable", True) and not made:
                yield here
        else:
            yield from _within(here, field["type"], given)


def _within(path: Path, have: Type, given: Type) -> Iterator[Path]:
    if isinstance(have, str) or isinstance(given, str) or have["type"] != given["type"]:
        return
    if have["type"] == "struct":
        yield from _required(path, have["fields"], parts(given))
    elif have["type"] in ("array", "map"):
        there = parts(have)
        for name, kind in parts(given).items():
            yield from _within((*path, name), there[name], kind)
