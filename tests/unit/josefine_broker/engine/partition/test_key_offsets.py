"""The map of keys: the newest offset of each, in the memory it was given."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.engine.partition.key_offsets import ENTRY_BYTES, NOT_FOUND, KeyOffsets


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**62)), max_size=200))
def test_map_equals_a_dict(puts: list[tuple[bytes, int]]) -> None:
    found, model = KeyOffsets(1 << 20, len(puts)), dict[bytes, int]()
    for key, offset in puts:
        found.put(key, offset)
        model[key] = offset

    assert found.count == len(model)
    assert {key: found.get(key) for key in model} == model
    assert found.get(b"another key") == NOT_FOUND


def test_full_map_still_finds_every_key_and_takes_newer_offsets() -> None:
    latest = KeyOffsets(100 * ENTRY_BYTES, 10**9)
    keys = [b"%d" % n for n in range(latest.count_max)]
    for offset, key in enumerate(keys):
        latest.put(key, offset)

    for offset, key in enumerate(keys):
        latest.put(key, 1_000 + offset)

    assert [latest.get(key) for key in keys] == list(range(1_000, 1_000 + len(keys)))
    assert latest.get(b"no room for it") == NOT_FOUND
    with pytest.raises(AssertionError, match="no room"):
        latest.put(b"no room for it", 1)


@pytest.mark.parametrize("bytes_max", [48, 1_000, 1 << 20])
@pytest.mark.parametrize("keys_max", [0, 1, 30, 10**9])
def test_map_is_no_larger_than_allowed_nor_than_needed(bytes_max: int, keys_max: int) -> None:
    latest = KeyOffsets(bytes_max, keys_max)

    assert latest.size_bytes <= bytes_max
    assert latest.size_bytes <= max(2, keys_max * 4 / 3 + 2) * ENTRY_BYTES
    assert latest.count_max >= min(keys_max, bytes_max // ENTRY_BYTES * 3 // 4)
