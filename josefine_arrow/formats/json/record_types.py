"""Record types of framed JSON: which records of a topic are of the wanted type.

A record's frame has the number of its schema, and the registry has the schema's title. Nothing else
of the schema is used: the columns that decode a record are those of the pipeline file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from josefine_arrow.formats.confluent.framing import OFFLINE, OWN, FramingError, split
from josefine_arrow.formats.confluent.json_schema_title import (
    RecordType,
    TitleError,
    record_type_of,
)
from josefine_arrow.formats.confluent.schema_references import NoSchemaError
from josefine_arrow.formats.confluent.schema_registry import JSON
from josefine_arrow.formats.confluent.schema_registry_http import registry_at

if TYPE_CHECKING:
    import pyarrow as pa

TypeBy = Callable[[int], RecordType]
"""Lookup of a schema's record type by its id. Raises NoSchemaError, TitleError, RegistryError."""

DecodeColumn = Callable[["pa.Array"], tuple["pa.Array", "pa.Array"]]
"""A column of bytes to (values, reasons)."""


class OtherTypeError(ValueError):
    """A record is of another type than the wanted one."""


class TypeFilter:
    """The records of one type: bytes to (the JSON after the frame, reason). (None, None): a record
    of another type, which is skipped. Mutable: the verdict on each schema."""

    def __init__(self, wanted: str, type_by: TypeBy, *, skips: bool = False) -> None:
        self._wanted, self._type_by, self._skips = wanted, type_by, skips
        self._verdicts: dict[int, Exception | None] = {}

    def __call__(self, data: bytes | None) -> tuple[bytes | None, str | None]:
        """Raises RegistryError."""
        if data is None:
            return None, None
        try:
            number, data = split(data)
            verdict = self._verdict(number)
        except (FramingError, NoSchemaError) as error:
            return None, str(error)
        if verdict is None:
            return data, None
        is_skipped = self._skips and isinstance(verdict, OtherTypeError)
        return None, None if is_skipped else str(verdict)

    def _verdict(self, number: int) -> Exception | None:
        if number not in self._verdicts:
            try:
                found = self._type_by(number)
                self._verdicts[number] = verdict_on(number, found, self._wanted)
            except TitleError as error:
                self._verdicts[number] = error
        return self._verdicts[number]

    def column(self, decode: DecodeColumn) -> DecodeColumn:
        """A decoder of framed values from one of JSON; null stays null."""
        import pyarrow as pa
        import pyarrow.compute as pc

        def decoded(values: pa.Array) -> tuple[pa.Array, pa.Array]:
            pairs = [self(data) for data in values.to_pylist()]
            found, reasons = decode(pa.array([data for data, _ in pairs], pa.binary()))
            own = pa.array([why for _, why in pairs], pa.string())
            return found, pc.coalesce(own, reasons)

        return decoded


def verdict_on(number: int, found: RecordType, wanted: str) -> Exception | None:
    """Why records of schema `number` are not read; None if they are of the wanted type."""
    if found.title == wanted:
        return None
    if wanted in found.branches:
        union = ", ".join(found.branches)
        return TitleError(
            f"schema {number} is a union of {union}: a record does not name which of them it is"
        )
    if found.title or found.branches:
        return _other(found.title or ", ".join(found.branches), wanted)
    if found.subjects == (wanted,):
        return None
    subjects = ", ".join(found.subjects)
    if wanted in found.subjects:
        return TitleError(f"schema {number} has several subjects ({subjects}) and no title")
    if not subjects:
        return TitleError(f"schema {number} has neither a title nor a subject")
    return _other(subjects, wanted)


def _other(found: str, wanted: str) -> OtherTypeError:
    return OtherTypeError(f"a {found}, expected a {wanted}")


_filters: dict[tuple[str, str, bool], TypeFilter] = {}
"""One cache per process: Spark reuses a Python worker for many batches."""


def type_filter_of(wanted: str, registry: str, *, skips: bool = False) -> TypeFilter:
    """The cached filter of this process. `registry`: its address or OWN."""
    key = (wanted, registry, skips)
    if key not in _filters:
        type_by = _own(wanted) if registry == OWN else type_at(registry)
        _filters[key] = TypeFilter(wanted, type_by, skips=skips)
    return _filters[key]


def type_at(registry: str) -> TypeBy:
    """The record types of the schemas in a registry."""
    client = registry_at(registry, JSON)

    def type_by(number: int) -> RecordType:
        found = record_type_of(number, client.schema(number))
        if found.title or found.branches:
            return found
        return found._replace(subjects=client.subjects(number))

    return type_by


def _own(wanted: str) -> TypeBy:
    """Inline records of the file are of the wanted type."""

    def type_by(number: int) -> RecordType:
        if number != OFFLINE:
            raise NoSchemaError(f"schema {number}: records of the file itself have {OFFLINE}")
        return RecordType(wanted)

    return type_by


def skipping(
    read: Callable[[bytes], tuple[Any, str | None]], types: TypeFilter
) -> Callable[[bytes], tuple[Any, str | None]]:
    """A decoder of single framed values from one of JSON."""

    def decoded(data: bytes) -> tuple[Any, str | None]:
        json, why = types(data)
        return (None, why) if json is None else read(json)

    return decoded
