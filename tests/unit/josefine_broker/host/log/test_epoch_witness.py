"""A batch whose leader epoch does not fit the stored starts of epochs is damaged."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.log.epoch_witness import EpochWitness
from josefine_broker.records.batch import parse_header
from josefine_broker.records.builder import Record, build_batch


class State:
    """The stored epochs of a log; None: not readable."""

    def __init__(self, *starts: tuple[int, int], damaged: bool = False) -> None:
        self.starts = [(LeaderEpoch(epoch), offset) for epoch, offset in starts]
        self.damaged = damaged

    def leader_epochs(self) -> bytes | None:
        if self.damaged:
            raise CorruptData("x")
        return LeaderEpochs(self.starts).to_bytes(1_000) if self.starts else None


def check(
    epoch: int, base: int, last: int | None, *starts: tuple[int, int], may_have_holes: bool = False
) -> None:
    """A batch of three records."""
    state: Any = State(*starts)
    batch = build_batch([Record(None, b"v", (), 0)] * 3, base_offset=base, leader_epoch=epoch)
    EpochWitness(state, may_have_holes=may_have_holes).check(parse_header(batch), last)


@pytest.mark.parametrize(
    ("epoch", "base", "last"),
    [(2, 0, None), (5, 10, 2), (5, 13, 5), (5, 30, None), (9, 99, 5), (3, 5, 2)],
)
def test_batches_from_an_epochs_start_on_and_of_epochs_that_are_not_listed_fit(epoch, base, last):
    check(epoch, base, last, (2, 0), (5, 10))


def test_a_batch_that_ends_before_its_epoch_began_is_damaged() -> None:
    with pytest.raises(CorruptData, match="offset 7 of leader epoch 5, which began at offset 10"):
        check(5, 7, 2, (2, 0), (5, 10))
    check(5, 8, None, (2, 0), (5, 10))


def test_the_first_listed_epoch_may_have_started_earlier() -> None:
    check(2, 0, None, (2, 100), (5, 200))


def test_the_first_batch_of_an_epoch_is_at_its_start_unless_batches_were_cleaned_away() -> None:
    with pytest.raises(CorruptData, match="the first one, which began at offset 10"):
        check(5, 13, 2, (2, 0), (5, 10))
    check(5, 13, 2, (2, 0), (5, 10), may_have_holes=True)
    check(5, 13, None, (2, 0), (5, 10))


def test_without_readable_epochs_nothing_is_known() -> None:
    damaged: Any = State((5, 10), damaged=True)
    batch = build_batch([Record(None, b"v", (), 0)], base_offset=0, leader_epoch=5)

    EpochWitness(damaged, may_have_holes=False).check(parse_header(batch), 2)
    check(5, 0, 2)
