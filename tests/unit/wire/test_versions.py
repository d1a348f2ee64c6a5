"""Every listed version of every key but Produce and Fetch against kio, in both directions."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData
from josefine_broker.wire import apis, codec
from josefine_broker.wire import entities as e
from josefine_broker.wire.versions import (
    REQUEST_SHIMS,
    RESPONSE_SHIMS,
    SHAPES,
    request_plan,
    response_plan,
)
from tests.unit.wire.kio_entities import (
    GENERIC_KEY_VERSIONS,
    entities,
    from_bytes,
    plain,
    schema,
    to_bytes,
)

DROPPED = frozenset({"include_cluster_authorized_operations", "cluster_authorized_operations"})
"""Metadata 8 to 10 only: taken back by Kafka, read and dropped, written as their default."""

NOT_DROPPED_HERE = {apis.DESCRIBE_CLUSTER}


def fixed_fields(api_key: int) -> frozenset[str]:
    return (DROPPED - {"x"}) | {"retention_time"} if api_key not in NOT_DROPPED_HERE else frozenset()


def random_entity(data: st.DataObject, api_key: int, version: int, kind: str) -> Any:
    return data.draw(entities(schema(api_key, version, kind), fixed_fields(api_key)))


def assert_same_fields(ours: Any, theirs: Any) -> None:
    """Each field that both have is equal, all the way down."""
    if isinstance(theirs, SimpleNamespace):
        names = {field.name for field in dataclasses.fields(ours)}
        for name, value in vars(theirs).items():
            if name in names:
                assert_same_fields(getattr(ours, name), value)
    elif isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for our_item, their_item in zip(ours, theirs, strict=True):
            assert_same_fields(our_item, their_item)
    else:
        assert ours == theirs


def is_shimmed(api_key: int, version: int, kind: str) -> bool:
    shims = REQUEST_SHIMS if kind == "request" else RESPONSE_SHIMS
    return api_key in shims and version <= shims[api_key].last_version


@pytest.mark.parametrize(("api_key", "version"), GENERIC_KEY_VERSIONS)
@pytest.mark.parametrize("kind", ["request", "response"])
@settings(max_examples=25)
@given(data=st.data())
def test_every_listed_version_round_trips_through_our_shape(
    api_key: int, version: int, kind: str, data: st.DataObject
) -> None:
    """Checklist row 17. kio's bytes → our shape → the same bytes; every field in its place."""
    theirs = random_entity(data, api_key, version, kind)
    plan = (request_plan if kind == "request" else response_plan)(api_key, version)
    body = to_bytes(theirs)

    ours, end = plan.read(memoryview(bytearray(body)), 0)
    written = bytearray()
    plan.write(written, ours)

    assert end == len(body)
    assert bytes(written) == body
    assert type(ours) is SHAPES[api_key][kind == "response"]
    if not is_shimmed(api_key, version, kind):
        assert_same_fields(ours, plain(theirs))


@pytest.mark.parametrize("kind", ["request", "response"])
@pytest.mark.parametrize("api_key", sorted(SHAPES))
def test_our_shape_has_every_field_of_the_newest_version(api_key: int, kind: str) -> None:
    newest = schema(api_key, apis.APIS[api_key].max_version, kind)

    def walk(version: type, shape: type) -> None:
        names = {field.name: field for field in dataclasses.fields(shape)}
        for field in dataclasses.fields(version):
            kafka_type = field.metadata.get("kafka_type", "")
            name = f"{field.name}_ms" if kafka_type.startswith("timedelta") else field.name
            assert name in names, f"{shape.__name__} lacks {name}"

    walk(newest, SHAPES[api_key][kind == "response"])
