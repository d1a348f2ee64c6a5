"""What a consumer is given instead of damaged batches is committed, intact, and leaves out none."""

from __future__ import annotations

import pytest

from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.engine.partition.repair.substitutes import AGAIN_MS, RUNS_MAX, Substitutes
from josefine_broker.records.batch import iter_batches, stamp
from tests.unit.josefine_broker.api.world import batch_of

EPOCHS = LeaderEpochs([(0, 0), (1, 4)])


def batches(*starts: int, epoch: int | None = None) -> bytearray:
    """Of two records each; of the epoch that wrote these offsets, or of that one."""
    made = bytearray()
    for start in starts:
        batch = bytearray(batch_of(b"%d" % start, b"%d" % (start + 1)))
        stamp(batch, 0, start, LeaderEpoch(int(start >= 4) if epoch is None else epoch))
        made += batch
    return made


SIZE = len(batches(0))


def starts_in(parts: object) -> list[int]:
    data = b"".join(parts)  # type: ignore[arg-type]
    return [header.base_offset for _, header in iter_batches(data)]


def taken(records: bytes, offset: int, end_offset: int = 100) -> Substitutes:
    made = Substitutes(LeaderEpoch(1))
    assert made.take(records, offset, end_offset, EPOCHS)
    return made


@pytest.mark.parametrize(
    ("offset", "bytes_max", "end_offset", "found"),
    [
        (2, 10_000, 100, [2, 4, 6]),
        (3, 10_000, 100, [2, 4, 6]),  # from the batch with the offset
        (4, 10_000, 100, [4, 6]),
        (2, 2 * SIZE, 100, [2, 4]),
        (2, 1, 100, [2]),  # the first one in any case
        (2, 10_000, 6, [2, 4]),  # below the last stable offset, say
        (2, 10_000, 3, []),
    ],
)
def test_batches_are_read_from_the_one_with_the_offset(
    offset: int, bytes_max: int, end_offset: int, found: list[int]
) -> None:
    its = taken(batches(2, 4, 6), 2)

    assert starts_in(its.read(offset, bytes_max, end_offset, at_least_one=True)) == found
    assert its.wanted is None


def test_answer_without_room_for_a_batch_gets_none() -> None:
    its = taken(batches(2, 4), 2)

    assert not its.read(2, SIZE - 1, 100, at_least_one=False)
    assert starts_in(its.read(2, SIZE, 100, at_least_one=False)) == [2]


@pytest.mark.parametrize("offset", [1, 8])
def test_what_is_not_here_is_wanted(offset: int) -> None:
    its = taken(batches(2, 4, 6), 2)

    assert not its.read(offset, 10_000, 100, at_least_one=True)
    assert its.wanted == offset


def flipped(at: int) -> bytearray:
    data = batches(2, 4, 6)
    data[at] ^= 1
    return data


@pytest.mark.parametrize(
    ("records", "offset", "end_offset", "found"),
    [
        (batches(0, 2, 4), 3, 100, [2, 4]),  # the answer may start earlier
        (batches(2, 4, 6), 2, 6, [2, 4]),  # what is not committed is left out
        (batches(2, 6), 2, 100, [2]),  # ... and what does not continue it
        (batches(2, 4, 6, epoch=0), 2, 100, [2]),  # ... and what another leader wrote
        (flipped(SIZE + 70), 2, 100, [2]),  # ... and what is damaged there, too
        (batches(4), 2, 100, None),  # the record that is asked for may exist
        (flipped(70), 2, 100, None),
        (batches(2, epoch=1), 2, 100, None),
        (batches(2), 2, 3, None),
        (b"", 2, 100, None),
    ],
)
def test_only_committed_intact_batches_of_their_leader_are_taken(
    records: bytearray, offset: int, end_offset: int, found: list[int] | None
) -> None:
    its = Substitutes(LeaderEpoch(1))
    its.wanted = offset

    assert its.take(records, offset, end_offset, EPOCHS) is (found is not None)

    assert its.wanted == (offset if found is None else None)
    assert starts_in(its.read(offset, 10_000, 100, at_least_one=True)) == (found or [])


def test_only_the_last_answers_are_kept() -> None:
    its = Substitutes(LeaderEpoch(1))
    for start in range(0, 2 * RUNS_MAX + 2, 2):
        assert its.take(batches(start), start, 100, EPOCHS)

    assert not its.read(0, 10_000, 100, at_least_one=True)
    assert starts_in(its.read(2, 10_000, 100, at_least_one=True)) == [2]


def test_replicas_are_asked_again_after_a_while_if_a_consumer_still_waits() -> None:
    its = Substitutes(LeaderEpoch(1))
    its.read(2, 1, 100, at_least_one=True)
    its.refuse(2)

    its.exhausted(500)

    assert (its.wanted, its.refused, its.retry_at_ms) == (None, set(), 500 + AGAIN_MS)
