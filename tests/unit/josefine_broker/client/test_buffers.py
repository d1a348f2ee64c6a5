"""A receive buffer is used again only when nobody can see it."""

from __future__ import annotations

import numpy as np

from josefine_broker.client.buffers import POOLED_BYTES_MIN, POOLED_COUNT_MAX, BufferPool

SIZE = POOLED_BYTES_MIN * 2


def address(view: memoryview) -> int:
    return int(np.frombuffer(view, dtype=np.uint8).__array_interface__["data"][0])


def test_a_buffer_is_used_again_after_its_last_view_is_gone() -> None:
    pool = BufferPool()
    view = pool.take(SIZE)
    first = address(view)
    del view

    assert address(pool.take(SIZE)) == first


def test_a_slice_or_an_array_keeps_a_buffer_from_being_used_again() -> None:
    pool = BufferPool()
    view = pool.take(SIZE)
    view[:5] = b"first"
    kept = view[0:5]
    array = np.frombuffer(pool.take(SIZE), dtype=np.uint8)
    array_address = array.__array_interface__["data"][0]
    del view

    third = pool.take(SIZE)
    third[:5] = b"third"

    assert bytes(kept) == b"first"
    assert address(third) not in (address(kept), array_address)


def test_more_buffers_than_the_pool_holds_are_still_separate() -> None:
    pool = BufferPool()

    views = [pool.take(SIZE) for _ in range(POOLED_COUNT_MAX + 3)]

    assert len({address(view) for view in views}) == len(views)
    assert all(len(view) == SIZE for view in views)


def test_a_buffer_far_too_large_is_not_used_for_a_small_frame() -> None:
    pool = BufferPool()
    large = pool.take(SIZE * 100)
    where = address(large)
    del large

    assert address(pool.take(SIZE)) != where
