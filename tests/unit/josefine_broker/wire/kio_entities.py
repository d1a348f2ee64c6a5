"""kio's entities as random values, as bytes, and as the shapes that this project uses.

kio is the oracle: its reader and writer take no part in the code under test.
"""

import dataclasses
import datetime
import io
from functools import cache
from types import SimpleNamespace
from typing import Any, get_args, get_origin
from uuid import UUID

from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.schemas import load_request_schema, load_response_schema
from josefine_broker.wire.apis import APIS

KIO_HAS_NOT = {(0, 0), (0, 1), (0, 2)}
"""Produce before record batches: Kafka 4 has no schema of it any more."""

KEY_VERSIONS = [
    (spec.key, version)
    for spec in APIS.values()
    for version in range(spec.min_version, spec.max_version + 1)
    if (spec.key, version) not in KIO_HAS_NOT
]
GENERIC_KEYS = [key for key in sorted(APIS) if key > 1]
GENERIC_KEY_VERSIONS = [(key, version) for key, version in KEY_VERSIONS if key > 1]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


def int_of(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_TEXT = st.text(max_size=12)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int8": int_of(8),
    "int16": int_of(16),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": int_of(32),
    "int64": int_of(64),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": _TEXT,
    "bytes": st.binary(max_size=200),
    "uuid": st.none() | st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number)),
    "error_code": st.sampled_from(list(ErrorCode)),
    "timedelta_i32": int_of(32).map(lambda ms: ms * _MILLISECOND),
    "timedelta_i64": st.integers(-1, 2**40).map(lambda ms: ms * _MILLISECOND),
    "datetime_i64": st.integers(0, 2**41).map(lambda ms: _EPOCH + ms * _MILLISECOND),
    "records": st.binary(max_size=200),
}


def schema(api_key: int, version: int, kind: str) -> type:
    load = load_request_schema if kind == "request" else load_response_schema
    return load(api_key, version)


@cache
def entities(cls: type, fixed: frozenset[str] = frozenset()) -> st.SearchStrategy[Any]:
    """Random entities of a kio class; fields named in `fixed` keep their default."""
    parts = {
        field.name: _field(field, fixed)
        for field in dataclasses.fields(cls)
        if not (field.name in fixed and field.default is not dataclasses.MISSING)
    }
    return st.builds(cls, **parts)


def _field(field: Any, fixed: frozenset[str]) -> st.SearchStrategy[Any]:
    hint, kafka_type = field.type, field.metadata.get("kafka_type")
    nullable = type(None) in get_args(hint) and kafka_type != "uuid"
    if nullable:
        hint = next(part for part in get_args(hint) if part is not type(None))
    is_array = get_origin(hint) is tuple
    inner = get_args(hint)[0] if is_array else hint
    if field.name in fixed and kafka_type == "bool":
        return st.just(False)
    value = entities(inner, fixed) if kafka_type is None else _VALUES[kafka_type]
    if is_array:
        value = st.lists(value, max_size=3).map(tuple)
    # A tagged field cannot be null: kio leaves it out when it has its default, None.
    return st.none() | value if nullable else value


def to_bytes(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def from_bytes(cls: type, body: bytes) -> Any:
    entity, size = entity_reader(cls)(body, 0)
    assert size == len(body)
    return entity


def plain(value: Any) -> Any:
    """A kio value in our terms: durations and times as `_ms` integers, entities as namespaces."""
    if dataclasses.is_dataclass(value):
        fields = {}
        for field in dataclasses.fields(value):
            kafka_type = field.metadata.get("kafka_type", "")
            in_ms = kafka_type.startswith(("timedelta", "datetime"))
            name = f"{field.name}_ms" if in_ms else field.name
            fields[name] = (
                -1
                if in_ms and getattr(value, field.name) is None
                else plain(getattr(value, field.name))
            )
        return SimpleNamespace(**fields)
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, datetime.timedelta):
        return value // _MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _MILLISECOND
    return value
