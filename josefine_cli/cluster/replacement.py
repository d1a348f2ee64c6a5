"""The plan of a broker's replacement: what is left to move, why it is refused, how long it takes.

Rules: everything follows from the cluster as it is now, so a command that was interrupted is simply
run again. The newcomer takes the place of the old broker in each replica list: whatever was led
first is led first again. Values in, values out; `replace.py` asks and sleeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.cluster import NO_LEADER, PartitionMetadata
from josefine_broker.client.replicas import Move

NAMED_MAX = 3
"""Partitions that a refusal names; it counts the others."""
SHOWN_BYTES_MIN = 100_000
"""Fewer bytes are no progress to look at."""
MOVES_MAX = 50
"""Partitions that are moved at a time: all of them share the newcomer's disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What is known of the cluster at one moment."""

    fenced: Mapping[int, bool]
    """Every registered broker, and whether it is fenced."""
    voters: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionMetadata]
    moves: Mapping[TopicPartition, Move] = field(default_factory=dict)

    def final(self, tp: TopicPartition) -> tuple[int, ...]:
        """The replicas of a partition once its current move, if any, is over."""
        move = self.moves.get(tp)
        removing = () if move is None else move.removing
        replicas = self.partitions[tp].replicas if move is None else move.replicas
        return tuple(each for each in replicas if each not in removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """What a replacement has left to do."""

    start: dict[TopicPartition, tuple[int, ...]]
    """Partitions to be moved, with their replicas afterwards."""
    moving: tuple[TopicPartition, ...]
    """Partitions that the old broker still has until their move is over."""

    @property
    def count(self) -> int:
        return len(self.start) + len(self.moving)

    def has_both(self, new: int) -> bool:
        """Whether a partition has replicas on both brokers: then one fewer would be left."""
        return any(target.count(new) > 1 for target in self.start.values())

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return (*self.start, *self.moving)


def remaining(cluster: Cluster, old: int, new: int) -> Remaining:
    """The partitions of the old broker, by what they need."""
    start: dict[TopicPartition, tuple[int, ...]] = {}
    moving = []
    for tp, partition in sorted(cluster.partitions.items()):
        final = cluster.final(tp)
        if old in final:
            start[tp] = tuple(new if each == old else each for each in final)
        elif old in partition.replicas or old in _replicas_of(cluster.moves.get(tp)):
            moving.append(tp)
    return Remaining(start=start, moving=tuple(moving))


def _replicas_of(move: Move | None) -> tuple[int, ...]:
    return () if move is None else move.replicas


def why_not(cluster: Cluster, old: int, new: int) -> str:
    """Why the old broker cannot be replaced by the new one now; empty: it can."""
    if new not in cluster.fenced:
        known = ", ".join(map(str, sorted(cluster.fenced)))
        return (
            f"broker {new} is not in the cluster, which has the brokers {known}: start it first,"
            " with raft.seeds and a broker.id of its own"
        )
    if cluster.fenced[new]:
        return f"broker {new} is registered, but does not serve: start it, or wait until it does"
    left = remaining(cluster, old, new).start
    both = [tp for tp, target in left.items() if target.count(new) > 1]
    if both:
        move = f"'josefine cluster reassign {both[0].topic}:{both[0].partition} --to BROKER,...'"
        return (
            f"{_named(both)} already has a replica on broker {new} and one on broker {old}, so"
            f" one fewer would be left: give it another broker first ({move})"
        )
    dead = [
        tp
        for tp in left
        if cluster.partitions[tp].leader == NO_LEADER or _has_no_source(cluster, tp)
    ]
    if dead:
        return (
            f"{_named(dead)} has no leader to copy from: start a broker that has it in sync first"
            " (josefine cluster partitions lists them)"
        )
    # The last step takes the old broker's vote, which the other voters have to commit.
    rest = cluster.voters - {old}
    live = [each for each in rest if not cluster.fenced.get(each, True)]
    if old in cluster.voters and not rest:
        return (
            f"broker {old} is the only voter of the cluster: start one more broker, and wait"
            " until two more vote (josefine cluster status)"
        )
    if old in cluster.voters and 2 * len(live) <= len(rest):
        away = ", ".join(str(each) for each in sorted(rest) if each not in live)
        return f"a majority of the remaining voters must serve: start broker {away} first"
    return ""


def _has_no_source(cluster: Cluster, tp: TopicPartition) -> bool:
    return cluster.fenced.get(cluster.partitions[tp].leader, True)


def _named(partitions: list[TopicPartition]) -> str:
    shown = ", ".join(map(str, partitions[:NAMED_MAX]))
    more = len(partitions) - NAMED_MAX
    return f"{shown} and {more} more" if more > 0 else shown


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far the moves are, in partitions and bytes. Mutable."""

    total: int
    """Partitions to be moved when this run started."""
    bytes_total: int
    began_s: float
    bytes_first: int | None = None
    """Bytes that the newcomer had when this run started to count."""

    def line(self, left: int, moving: int, bytes_done: int, now_s: float) -> str:
        """`3 of 8 partitions moved, 12.0 of 40.0 MB, about 20 s left`."""
        if self.bytes_first is None:
            self.bytes_first = bytes_done
        self.total = max(self.total, left)  # a topic may have been created meanwhile
        text = f"{self.total - left} of {self.total} partitions moved, {moving} moving"
        if self.bytes_total >= SHOWN_BYTES_MIN:
            text += f", {bytes_done / 1e6:.1f} of {self.bytes_total / 1e6:.1f} MB"
        left_s = self._left_s(bytes_done, now_s)
        return text if left_s is None else f"{text}, about {left_s:.0f} s left"

    def _left_s(self, bytes_done: int, now_s: float) -> float | None:
        """Time left at the pace so far; None while there is none to go by."""
        assert self.bytes_first is not None
        copied, spent_s = bytes_done - self.bytes_first, now_s - self.began_s
        if copied <= 0 or spent_s <= 0:
            return None
        return max(0.0, (self.bytes_total - bytes_done) * spent_s / copied)
