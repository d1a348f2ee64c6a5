"""Shapes generated from Kafka's schemas, for APIs that are always declined.

Shapes for handlers are files of `wire/entities/`, for type checkers too. No handler uses these:
their requests are read only for the items that the refusal must name, and every field has a
default.
"""

import dataclasses
import types
import typing
from typing import Any
from uuid import UUID

from josefine_broker.base.errors import ErrorCode
from josefine_broker.wire.schema import our_name, parse_hint

_PLAIN: dict[str, tuple[Any, Any]] = {
    "bool": (bool, False),
    "bytes": (bytes, b""),
    "error_code": (ErrorCode, ErrorCode.none),
    "float64": (float, 0.0),
    "records": (bytes | None, None),
    "string": (str, ""),
    "uuid": (UUID | None, None),
}
"""Type and default by Kafka's type; every other one is a number."""


def mirrored(version: type) -> type:
    """Our shape of one message: the fields of kio's class for its newest version."""
    return dataclasses.make_dataclass(
        version.__name__,
        [_field(field) for field in dataclasses.fields(version)],
        frozen=True,
        slots=True,
        kw_only=True,
    )


def _field(field: Any) -> tuple[str, Any, Any]:
    is_array, nullable, struct = parse_hint(field.type)
    kind: Any
    if struct is not None:
        kind = mirrored(struct)
        default = None if nullable or is_array else kind()  # an empty one: each field has a default
    else:
        kind, default = _PLAIN.get(field.metadata["kafka_type"], (int, 0))
    if is_array:
        kind, default = types.GenericAlias(tuple, (kind, ...)), ()
    if nullable and default in (None, "", ()):
        kind, default = typing.Optional[kind], None  # noqa: UP045  (a made type has no `|`)
    return our_name(field), kind, dataclasses.field(default=default)
