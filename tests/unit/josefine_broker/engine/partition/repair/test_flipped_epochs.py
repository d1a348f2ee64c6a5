"""Epochs that have flipped in the batches of another replica are set right, records never."""

from __future__ import annotations

import pytest

from josefine_broker.engine.partition.repair.flipped_epochs import with_rising_epochs
from josefine_broker.records.batch import iter_batches, stamp, verify
from tests.unit.josefine_broker.api.world import batch_of


def log_of(*epochs: int) -> bytes:
    """Batches of one record each, of these leader epochs."""
    found = b""
    for offset, epoch in enumerate(epochs):
        batch = bytearray(batch_of(b"value %d" % offset))
        stamp(batch, 0, offset, epoch)
        found += batch
    return found


def epochs_of(records: bytes) -> list[int]:
    for position, header in iter_batches(records):
        verify(records, position, header)
    return [header.leader_epoch for _, header in iter_batches(records)]


@pytest.mark.parametrize(
    ("epochs", "right"),
    [
        ((0, 0, 1, 0, 0), (0, 0, 0, 0, 0)),
        ((0, 0, 5, 1, 1), (0, 0, 0, 1, 1)),
        ((0, 1, 1, 0, 1), (0, 1, 1, 1, 1)),
        ((0, 1, 0, 1), (0, 0, 0, 1)),
        ((4, 0, 0, 1), (0, 0, 0, 1)),
        ((0, 1, 0), (0, 0, 0)),
        ((0, 8, 9, 1, 1, 1), (0, 0, 0, 1, 1, 1)),
    ],
    ids=["up", "far up", "down", "up or down", "first", "only two left", "two"],
)
def test_fewest_epochs_that_explain_a_fall_are_wrong(
    epochs: tuple[int, ...], right: tuple[int, ...]
) -> None:
    found = with_rising_epochs(log_of(*epochs))

    assert found == log_of(*right)
    assert epochs_of(found) == [*right]


@pytest.mark.parametrize("epochs", [(), (0,), (0, 0, 3, 3, 7), (-1, 2, -1, 2)])
def test_epochs_that_do_not_fall_stay(epochs: tuple[int, ...]) -> None:
    records = log_of(*epochs)

    assert with_rising_epochs(records) is records


def test_batch_after_one_that_is_known_is_of_no_earlier_epoch() -> None:
    assert with_rising_epochs(log_of(2, 0, 0, 3), at_least=2) == log_of(2, 2, 2, 3)
    assert with_rising_epochs(log_of(0, 1), at_least=2) == log_of(2, 2)


def test_what_is_no_batch_stays() -> None:
    tail = log_of(0)[:30]

    assert with_rising_epochs(log_of(0, 1, 0, 0) + tail) == log_of(0, 0, 0, 0) + tail
    assert with_rising_epochs(log_of(0, 1, 0, 0) + bytes(80)) == log_of(0, 0, 0, 0) + bytes(80)
