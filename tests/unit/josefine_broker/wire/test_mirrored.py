"""Shapes of declined APIs: kio's newest fields under our names, each with a default."""

import dataclasses

import pytest

from josefine_broker.base.schemas import load_request_schema
from josefine_broker.wire import codec
from josefine_broker.wire.apis import APIS
from josefine_broker.wire.mirrored import mirrored


@pytest.mark.parametrize(("key", "version"), [(3, 12), (19, 7), (42, 2), (0, 8)])
def test_a_shape_needs_no_value_and_has_each_field(key: int, version: int) -> None:
    theirs = load_request_schema(key, version)

    made = mirrored(theirs)()

    assert len(dataclasses.fields(made)) == len(dataclasses.fields(theirs))
    for field in dataclasses.fields(made):
        value = getattr(made, field.name)
        is_array = "tuple" in str(field.type)
        assert value in ((None, ()) if is_array else (None, False, 0, 0.0, "", b"")), field.name
    assert type(made).__name__ == theirs.__name__


@pytest.mark.parametrize("key", [key for key, spec in APIS.items() if spec.is_declined])
def test_an_empty_request_of_a_declined_api_can_be_sent(key: int) -> None:
    """Also where a structure in it may not be null."""
    spec = APIS[key]
    for version in range(spec.min_version, spec.max_version + 1):
        assert b"".join(codec.encode_request(key, version, 1, "c", spec.request()))
