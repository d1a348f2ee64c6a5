"""Shapes of declined APIs: kio's newest fields under our names, each with a default."""

import dataclasses

import pytest

from josefine_broker.base.schemas import load_request_schema
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
