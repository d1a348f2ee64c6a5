"""What an unclean election takes, exactly: the checkers go on behind it as strictly as before.

A leader that is not believed to have everything may be elected where the topic allows it and nobody
better lives. When it first leads, its log is the truth: what was committed behind the place where
they part is lost, and no more than that. Leaders of before that do not know of it yet, cut off from
the others, may still confirm records, which are lost as well. Once: what is committed from then on
stays, and a high watermark that fell to that place does not fall again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from josefine_broker.engine.metadata.image import (
    NO_LEADER,
    BrokerEntry,
    MetadataImage,
    PartitionEntry,
)
from josefine_broker.engine.metadata.log_completeness import Completeness

if TYPE_CHECKING:
    from tests.simulation.cluster.view import Ack, Batch

__all__ = ["Cut", "Losses", "Opened", "believed", "was_unclean"]

Opened = Mapping[int, tuple[int, Completeness]]
"""By broker: the epoch of the process that opened a log after all, and what it is."""


class Cut(NamedTuple):
    """An unclean election took effect."""

    leader_epoch: int
    end_offset: int
    """What was committed before it is still there."""
    stable_end: int
    """A transaction whose marker is lost is open again."""


class Losses:
    """Of one partition. Mutable."""

    def __init__(self, *, is_allowed: bool) -> None:
        self.is_allowed = is_allowed
        """Unclean elections may be held."""
        self.due_epoch = -1
        """Of the last one whose leader has not led yet; -1: none."""
        self.cuts: list[Cut] = []
        self.batches: set[Batch] = set()
        """Once committed, or confirmed by a leader that was deposed, and lost."""
        self._fallen: dict[str, tuple[int, int, int]] = {}
        """By incarnation: the leader epoch of the cut that its high watermark last fell for, where
        to, and that of the fall before."""

    def elected(self, leader_epoch: int) -> None:
        """Somebody who may lack committed records is named."""
        self.due_epoch = leader_epoch

    def takes_effect(self, leader_epoch: int) -> bool:
        """Whether a leader of this epoch is the first to lead since an unclean election."""
        return 0 <= self.due_epoch <= leader_epoch

    def cut(self, leader_epoch: int, end_offset: int, stable_end: int, lost: list[Batch]) -> None:
        """It leads: this is what its log lacks."""
        self.due_epoch = -1
        self.cuts.append(Cut(leader_epoch, end_offset, stable_end))
        self.batches.update(lost)

    def is_deposed(self, leader_epoch: int) -> bool:
        """Whether a leader of this epoch was, by an unclean election, without its knowledge."""
        return bool(self.cuts) and leader_epoch < self.cuts[-1].leader_epoch

    def has(self, ack: Ack) -> bool:
        """Whether what was acknowledged is lost."""
        return any((each.base_offset, each.crc) == ack for each in self.batches)

    def may_fall(self, since_epoch: int, end_offset: int) -> bool:
        """Whether an end that was told in this epoch may be as low as that by now."""
        ends = [each.end_offset for each in self.cuts if each.leader_epoch > since_epoch]
        return bool(ends) and end_offset >= min(ends)

    def stable_end_may_fall(self, since_epoch: int, end_offset: int) -> bool:
        """The same of the last stable offset."""
        ends = [each.stable_end for each in self.cuts if each.leader_epoch > since_epoch]
        return bool(ends) and end_offset >= min(ends)

    def falls(self, incarnation: str, was: int, end_offset: int) -> bool:
        """A replica's high watermark falls from `was` to there: whether it may, once for each
        election. One fall may take several steps: a log is cut epoch by epoch (KIP-595)."""
        last_epoch, fell_to, epoch_before = self._fallen.get(incarnation, (-1, -1, -1))
        since_epoch = epoch_before if was == fell_to else last_epoch
        allowed = self.may_fall(since_epoch, end_offset)
        if allowed:
            self._fallen[incarnation] = (self.cuts[-1].leader_epoch, end_offset, since_epoch)
        return allowed


def believed(entry: PartitionEntry, image: MetadataImage) -> set[int]:
    """Who has every committed record, as far as anybody can know: of the members of ISR and ELR
    those without a doubt; if there are none, those that lost no more than a loss of power takes."""
    members = {*entry.isr, *entry.elr}
    whole = {
        each
        for each in members
        if entry.completeness_of(each) is Completeness.COMPLETE
        and not _is_unclean(image.brokers.get(each))
    }
    return whole or {
        each for each in members if entry.completeness_of(each).rank <= Completeness.UNSYNCED.rank
    }


def was_unclean(
    old: PartitionEntry, new: PartitionEntry, before: MetadataImage, opened: Opened
) -> bool:
    """Whether a new leader is none of those that are believed, with or without what running
    processes claim of logs that they could not read when they registered."""
    is_new = new.leader != NO_LEADER and new.leader_epoch > old.leader_epoch
    return (
        is_new
        and new.leader not in believed(old, before)
        and new.leader not in believed(_with_opened(old, before, opened), before)
    )


def _with_opened(entry: PartitionEntry, image: MetadataImage, opened: Opened) -> PartitionEntry:
    doubts = []
    for doubt in entry.doubts:
        broker = image.brokers.get(doubt.broker_id)
        epoch, claim = opened.get(doubt.broker_id, (-1, Completeness.UNREADABLE))
        if doubt.completeness is Completeness.UNREADABLE and broker and broker.epoch == epoch:
            doubts += [doubt._replace(completeness=claim)]
        else:
            doubts.append(doubt)
    return replace(entry, doubts=tuple(doubts))


def _is_unclean(broker: BrokerEntry | None) -> bool:
    return broker is not None and broker.unclean
