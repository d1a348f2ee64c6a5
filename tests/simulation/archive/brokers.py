"""Modelled brokers of an archived topic: replicas, leaders, retention, the group's offsets.

What retention may delete is decided by `engine/partition/archived_end.py`, as in a broker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.groups import Committed as GroupOffset
from josefine_broker.engine.partition import archived_end as decide

TOPIC = "t"
REPLICAS = 3
SEGMENT = 3
"""Records of a segment; the active one is never deleted."""
NO_OFFSET = GroupOffset(-1, "")


class Record(NamedTuple):
    """`value` None: a marker, which readers never see."""

    epoch: int
    value: bytes | None
    time_ms: int


@dataclass(slots=True)
class Replica:
    """A log from offset 0 on, of which those below `start` are deleted; and what its broker has
    heard while it led. `skew_ms`: of its clock."""

    records: list[Record] = field(default_factory=list)
    start: int = 0
    witness: decide.Witness = field(default_factory=decide.Witness)
    skew_ms: int = 0


class Partition:
    """Mutable: one partition of the topic."""

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.replicas = [Replica(skew_ms=1_000 * at) for at in range(REPLICAS)]
        self.in_sync = set(range(REPLICAS))
        self.leader_id = 0
        self.epoch = 0
        self.high_watermark = 0
        self.gone: dict[int, Record] = {}
        """The records that a leader has deleted."""

    @property
    def leader(self) -> Replica:
        return self.replicas[self.leader_id]

    def append(self, value: bytes | None, time_ms: int) -> None:
        self.leader.records.append(Record(self.epoch, value, time_ms))
        self._advance()

    def replicate(self, at: int) -> None:
        """A follower truncates to the leader's log, copies it, and joins the in-sync replicas."""
        follower, leader = self.replicas[at], self.leader
        if follower is leader:
            return
        follower.records = list(leader.records)
        follower.start = leader.start
        self.in_sync.add(at)
        self._advance()

    def fall_behind(self, at: int) -> None:
        if at != self.leader_id:
            self.in_sync.discard(at)
            self._advance()

    def elect(self, at: int) -> bool:
        """Another leader; whether that lost committed records."""
        is_clean = at in self.in_sync
        self.leader.witness = decide.Witness()
        self.leader_id, self.epoch = at, self.epoch + 1
        if not is_clean:
            self.in_sync = {at}
        was = self.high_watermark
        self.high_watermark = min(was, len(self.leader.records))
        self._advance()
        return not is_clean

    def restart(self, at: int, rng: Random) -> None:
        self.replicas[at].witness = decide.Witness()
        self.replicas[at].skew_ms = rng.randrange(1_000_000)

    def heard(self, offset: GroupOffset | None, now_ms: int) -> None:
        """The coordinator's answer to the leader."""
        leader, offset = self.leader, offset or NO_OFFSET
        committed = decide.Committed(offset.offset, offset.metadata)
        leader.witness = decide.heard(leader.witness, committed, now_ms + leader.skew_ms)

    def deletable(self, topic_id: str, now_ms: int, keeps: int) -> range:
        """The offsets that retention deletes now: whole segments, as many as it may. `keeps`:
        records that local retention keeps in any case."""
        leader = self.leader
        log = decide.LogPart(leader.start, self.high_watermark, self._epoch_of)
        bound = decide.archived_end(leader.witness, topic_id, now_ms + leader.skew_ms, log)
        end = min(bound.end, self.high_watermark - keeps, len(leader.records) - 1)
        return range(leader.start, max(leader.start, end - end % SEGMENT))

    def delete(self, offsets: range) -> None:
        for offset in offsets:
            self.gone[offset] = self.leader.records[offset]
        self.leader.start = offsets.stop

    def truth(self) -> dict[int, Record]:
        """Every committed record, the leader's first."""
        leader = self.leader
        local = range(leader.start, self.high_watermark)
        below = {at: each for at, each in self.gone.items() if at < leader.start}
        return {**below, **{at: leader.records[at] for at in local}}

    def _epoch_of(self, offset: int) -> int:
        records = self.leader.records
        return records[offset].epoch if offset < len(records) else self.epoch

    def _advance(self) -> None:
        end = min(len(self.replicas[at].records) for at in self.in_sync)
        self.high_watermark = max(self.high_watermark, end)


class Cluster:
    """Mutable: the topic, and the offsets of the archive's group."""

    def __init__(self, partitions: int) -> None:
        self.topics = 0
        self.retention_ms: int | None = None
        self.count = partitions
        self.recreate()

    def recreate(self) -> None:
        """The topic is deleted, with its group offsets, and created again."""
        self.topics += 1
        self.topic_id = UUID(int=self.topics)
        tps = [TopicPartition(TOPIC, at) for at in range(self.count)]
        self.partitions = {tp: Partition(tp) for tp in tps}
        self.offsets: dict[TopicPartition, GroupOffset] = {}

    def commit(self, offsets: Any, metadata: Any) -> None:
        for tp, offset in offsets.items():
            self.offsets[tp] = GroupOffset(offset, metadata[tp])
