"""Parts that Produce and Fetch have in common, as they are on the wire."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData
from josefine_broker.wire import primitives as p
from josefine_broker.wire.produce import NodeEndpoint
from josefine_broker.wire.shared import (
    read_node_endpoints,
    read_topic,
    slice_of,
    write_node_endpoints,
)

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=300)
ENDPOINTS = st.lists(
    st.builds(NodeEndpoint, st.integers(0, 2**31 - 1), TEXT, st.integers(0, 65535),
              st.none() | TEXT), max_size=3,
)  # fmt: skip


@given(ENDPOINTS, st.binary(max_size=3))
def test_endpoints_of_leaders_are_read_back_whatever_follows(endpoints, rest) -> None:
    out = bytearray()

    write_node_endpoints(out, endpoints)

    assert read_node_endpoints(memoryview(out + rest), 0) == (tuple(endpoints), len(out))


def test_a_response_without_endpoints_or_with_another_tag_has_none() -> None:
    assert read_node_endpoints(memoryview(b"\0"), 0) == ((), 1)
    assert read_node_endpoints(memoryview(b"\1\5\2ab"), 0) == ((), 5)


@pytest.mark.parametrize(("size", "found"), [(-1, (None, 2)), (0, (b"", 2)), (3, (b"cde", 5))])
def test_bytes_are_a_view_and_null_is_minus_one(size: int, found) -> None:
    data, end = slice_of(memoryview(b"abcde"), 2, size)

    assert (data, end) == found


@pytest.mark.parametrize("size", [4, 2**31 - 1, -2])
def test_a_size_beyond_the_bytes_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptData):
        slice_of(memoryview(b"abcde"), 2, size)


def test_a_topic_is_named_or_has_an_id() -> None:
    name = bytearray()
    p.write_compact_string(name, "ä")

    assert read_topic(memoryview(name), 0, False) == ("ä", None, len(name))
    assert read_topic(memoryview(UUID(int=7).bytes), 0, True) == ("", UUID(int=7), 16)
