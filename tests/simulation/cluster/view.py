"""What the checkers know of the whole cluster: what was committed where, acknowledged to whom.

A batch counts as committed when a leader's high watermark first passes it; `PartitionFacts.batches`
is then the truth that every later leader, ISR member and reader is held against.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import MetadataImage, PartitionEntry, TopicEntry
from josefine_broker.engine.metadata.leader_election import trusted
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    iter_batches,
)
from raft import Node
from tests.simulation.cluster.group_facts import GroupFacts
from tests.simulation.cluster.rot import is_intact
from tests.simulation.cluster.transfer_facts import TransferFacts
from tests.simulation.cluster.unclean import Losses

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["Ack", "Batch", "Key", "PartitionFacts", "View", "batches_of", "bytes_from"]

Key = tuple[UUID, int]


class Batch(NamedTuple):
    """One batch as it lies in a log."""

    base_offset: int
    end_offset: int
    crc: int
    leader_epoch: int
    producer_id: int = NO_PRODUCER_ID
    base_sequence: int = NO_SEQUENCE
    producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def last_sequence(self) -> int:
        """Of its last record."""
        return self.base_sequence + self.end_offset - self.base_offset - 1

    @classmethod
    def of(cls, header: BatchHeader) -> Batch:
        return cls(
            header.base_offset,
            header.end_offset,
            header.crc,
            header.leader_epoch,
            header.producer_id,
            header.base_sequence,
            header.producer_epoch,
        )


class Ack(NamedTuple):
    """A batch that a producer with acks=all was told to be safe."""

    base_offset: int
    crc: int


class PartitionFacts:
    """Mutable; one per partition of one topic id."""

    def __init__(
        self,
        key: Key,
        topic: TopicEntry,
        *,
        unclean_default: bool = False,
        min_isr_default: int = 1,
    ) -> None:
        self.key = key
        self.name = f"{topic.name}-{key[1]}"
        config = dict(topic.config)
        self.flushes = topic.is_internal or config.get("flush.messages") == "1"
        """Every append is synced before it counts."""
        self.min_isr = int(config.get("min.insync.replicas", min_isr_default))
        self.batches: list[Batch] = []
        """Committed, in order, without a hole."""
        self.committed_in: list[int] = []
        """Of each, the leader epoch in which its leader was the first to know."""
        self.deleted_before = 0
        """Up to here an operator may have deleted records."""
        self.acks: list[Ack] = []
        self.sequences: dict[tuple[int, int], int] = {}
        """Producer id and epoch → the last sequence that was committed."""
        self.powerless: set[int] = set()
        """Replicas that lost their power and have not been in sync again."""
        self.opened: dict[int, tuple[int, Completeness]] = {}
        """Unreadable logs that a running process opened after all, see `unclean.py`."""
        self.damaged: set[int] = set()
        """Replicas whose log was damaged, and that have not been in sync again."""
        self.rotten: dict[Batch, set[int]] = {}
        """Committed batches that were damaged under running brokers, and at which: `rot.py`."""
        unclean = config.get("unclean.leader.election.enable")
        self.losses = Losses(is_allowed=unclean == "true" if unclean else unclean_default)
        """What unclean elections took."""
        self.excused = ""
        """Why records may be lost or changed here from now on; empty: they may not."""

    @property
    def rotting(self) -> set[int]:
        """Replicas with damage that is not repaired yet."""
        return set().union(*self.rotten.values())

    @property
    def end_offset(self) -> int:
        """All before it is committed."""
        return self.batches[-1].end_offset if self.batches else 0

    def owed(self, hosted: HostedPartition, count: int) -> list[Batch]:
        """Of the first `count` committed batches those that a replica with this start must have."""
        start = hosted.log.log_start_offset
        assert start <= self.deleted_before, (
            f"{self.name}: a log starts at {start}, nobody deleted past {self.deleted_before}"
        )
        return [each for each in self.batches[:count] if each.end_offset > start]

    def batch_at(self, offset: int) -> Batch | None:
        """The committed batch that holds this offset."""
        at = bisect_left(self.batches, offset + 1, key=lambda batch: batch.end_offset)
        return self.batches[at] if at < len(self.batches) else None

    def led_anew(self, hosted: HostedPartition, leader_epoch: int) -> int:
        """The first leader since an unclean election leads: what its log lacks is lost, of what was
        committed and acknowledged. How many acknowledgements are."""
        log = hosted.log
        owed = self.owed(hosted, len(self.batches))
        found = set(batches_of(hosted, log.log_start_offset, log.log_end_offset, self))
        missing = next((at for at, each in enumerate(owed) if each not in found), len(owed))
        kept = len(self.batches) - len(owed) + missing
        lost = self.batches[kept:]
        del self.batches[kept:], self.committed_in[kept:]
        stable_end = hosted.partition.producers.transactions.stable_end(self.end_offset)
        self.losses.cut(leader_epoch, self.end_offset, stable_end, lost)
        self.sequences = {
            (each.producer_id, each.producer_epoch): each.last_sequence
            for each in self.batches
            if each.base_sequence != NO_SEQUENCE
        }
        acks = len(self.acks)
        gone = {(each.base_offset, each.crc) for each in lost}
        self.acks = [each for each in self.acks if each not in gone]
        return acks - len(self.acks)

    def lose_power(self, broker_id: int) -> None:
        """A replica lost what it had not synced."""
        self.powerless.add(broker_id)
        if self.may_lose(self.powerless):
            self.excused = f"replicas {sorted(self.powerless)} lost their power"

    def may_lose(self, powerless: set[int]) -> bool:
        """Whether so many at once are more than this partition is to bear. What is synced bears any
        loss of power, but not damage besides: those without power are in doubt, and a replica that
        was not believed to be may then be the last one."""
        if self.flushes and not self.damaged:
            return False
        return len(self.damaged | powerless | self.rotting) >= self.min_isr


class View:
    """Mutable; filled by the world, read by the checkers."""

    def __init__(self) -> None:
        self.image = MetadataImage(cluster_id="")
        """The newest that any broker has."""
        self.height = 0
        self.partitions: dict[Key, PartitionFacts] = {}
        self.processes: dict[int, Process] = {}
        """Those that are up."""
        self.voters: frozenset[int] = frozenset()
        """Of the metadata, by the highest block that anybody knew to be committed,"""
        self.voters_height = -1
        """which was of this height."""
        self.forgetful: set[int] = set()
        """Those of them that lost all their data since."""
        self.groups = GroupFacts(self)
        self.transfers = TransferFacts(self)
        self.min_isr_default = 1
        """As `unclean_default`, for `min.insync.replicas`."""
        self.unclean_default = False
        """What brokers do about topics that do not say it themselves."""

    def facts(self, key: Key) -> PartitionFacts:
        """Of a partition that some image has named."""
        return self.partitions[key]

    def see_voters(self, node: Node) -> None:
        """After each input of a broker; cheap where it knows no more than another did."""
        core = node._core
        height = core.chain.commit.height
        if height > self.voters_height:
            self.voters_height = height
            self.voters = core.history.at(height)[0].voters
            self.forgetful &= self.voters

    def take_image(self, image: MetadataImage, height: int) -> None:
        """A broker is further than any other before."""
        before = self.image
        self.image, self.height = image, height
        for topic in image.topics.values():
            for index in range(len(topic.partitions)):
                key = topic.topic_id, index
                if key not in self.partitions:
                    self.partitions[key] = PartitionFacts(
                        key,
                        topic,
                        unclean_default=self.unclean_default,
                        min_isr_default=self.min_isr_default,
                    )
        if not image.keeps_doubts:
            self._doubt_whole_brokers(before)

    def _doubt_whole_brokers(self, before: MetadataImage) -> None:
        """At level 1 a doubt about one log of a broker is one about all of them: where another
        member is without power, the one that is whole may be left out for it."""
        for id_, broker in self.image.brokers.items():
            known = before.brokers.get(id_)
            if broker.unclean and not (known is not None and known.unclean):
                self.lose_power(id_)

    def entries(self) -> Iterator[tuple[PartitionFacts, str, PartitionEntry]]:
        """Every partition of the newest image."""
        for name, topic in self.image.topics.items():
            for index, entry in enumerate(topic.partitions):
                yield self.partitions[topic.topic_id, index], name, entry

    def entries_that_may_be_led(self) -> Iterator[tuple[PartitionFacts, str, PartitionEntry]]:
        """But for those that stand still, as they must: more was lost than they are to bear, and
        nobody is left who is believed."""
        for facts, name, entry in self.entries():
            if not facts.excused or entry.leader >= 0 or trusted(entry):
                yield facts, name, entry

    def is_current(self, broker_id: int) -> bool:
        """Up, as the incarnation that the newest image knows, and cleared if it was unclean."""
        process = self.processes.get(broker_id)
        broker = self.image.brokers.get(broker_id)
        return (
            process is not None
            and broker is not None
            and broker.incarnation == process.ctx.cluster.incarnation
            and not broker.unclean
        )

    def hosted(self, broker_id: int, name: str, key: Key) -> HostedPartition | None:
        """A replica at a broker that is up, with a log that is written."""
        process = self.processes.get(broker_id)
        if process is None:
            return None
        hosted = process.ctx.hosted.partitions.get((name, key[1]))
        if hosted is None or hosted.topic_id != key[0] or hosted.log.failure:
            return None
        return hosted

    def forgive(self) -> None:
        """Replicas that are in sync again have everything again."""
        for facts, _, entry in self.entries():
            whole = {
                broker_id
                for broker_id in facts.powerless | facts.damaged
                if broker_id in entry.isr
                and self.is_current(broker_id)
                and entry.completeness_of(broker_id) is Completeness.COMPLETE
                and not self._has_damage(broker_id, facts)
            }
            facts.powerless -= whole
            facts.damaged -= whole
            if facts.rotten:
                self._forgive_rot(facts, entry)

    def _has_damage(self, broker_id: int, facts: PartitionFacts) -> bool:
        """Damage that the broker has found and not repaired: it may be in sync all the same."""
        hosted = self.hosted(broker_id, facts.name.rpartition("-")[0], facts.key)
        return hosted is None or bool(hosted.log.damage.found)  # type: ignore[attr-defined]

    def _forgive_rot(self, facts: PartitionFacts, entry: PartitionEntry) -> None:
        """What was repaired, or deleted with its topic, its replica or by an operator."""
        for batch, brokers in list(facts.rotten.items()):
            brokers &= set(entry.replicas)
            for broker_id in list(brokers):
                process = self.processes.get(broker_id)
                if process is not None and is_intact(
                    process.machine.disk.files.names, facts.name, batch
                ):
                    brokers.discard(broker_id)
            if not brokers or batch.base_offset < facts.deleted_before:
                del facts.rotten[batch]

    def committed_batches(
        self, facts: PartitionFacts, led: HostedPartition, start: int, end: int
    ) -> tuple[HostedPartition, list[Batch]]:
        """Read from the leader, or from another replica while the leader's log is damaged there:
        that replica, and the batches."""
        name = facts.name.rpartition("-")[0]
        replicas = [self.hosted(each, name, facts.key) for each in self.processes]
        for hosted in (led, *replicas):
            if hosted is not None and hosted.log.log_end_offset >= end:
                with suppress(KafkaError):
                    return hosted, batches_of(hosted, start, end)
        return led, batches_of(led, start, end)

    def lose_power(self, broker_id: int) -> None:
        """A machine lost its power."""
        self.forgive()
        for facts, _, entry in self.entries():
            if broker_id in entry.replicas:
                facts.lose_power(broker_id)

    def may_be_damaged(self, broker_id: int) -> list[PartitionFacts]:
        """Partitions of which a replica may be damaged there, for the others bear it. At level 1
        a broker is judged as a whole: the last of an ISR leads even where its log is damaged."""
        if not self.image.keeps_doubts:
            return []
        self.forgive()
        found = []
        for facts, _, entry in self.entries():
            others = {*entry.isr, *entry.elr} - facts.damaged - facts.rotting - {broker_id}
            lacking = facts.damaged | facts.powerless | facts.rotting | {broker_id}
            is_borne = len(lacking) < facts.min_isr and not facts.excused
            if broker_id in entry.replicas and others and is_borne:
                found.append(facts)
        return found

    def is_covered(self, broker_ids: list[int]) -> bool:
        """Whether no partition may lose anything when these lose their power now."""
        self.forgive()
        for facts, _, entry in self.entries():
            lost = set(broker_ids).intersection(entry.replicas)
            if lost and not facts.excused and facts.may_lose(facts.powerless | lost):
                return False
        return True


def batches_of(
    hosted: HostedPartition, start: int, end: int, facts: PartitionFacts | None = None
) -> list[Batch]:
    """The batches of a log from `start`, below `end`. With `facts` a committed batch that is
    damaged there counts as present: it is repaired, or the end of the world shows that it was
    not."""
    found: list[Batch] = []
    offset = start
    while offset < end:
        try:
            buffers = hosted.log.read(offset, 1 << 20, end_offset=end)
        except KafkaError as error:
            batch = None if facts is None else facts.batch_at(offset)
            if error.code is not ErrorCode.corrupt_message or batch is None:
                raise
            found.append(batch)
            offset = batch.end_offset
            continue
        assert buffers, f"nothing to read at {offset} below {end}"
        for buffer in buffers:
            for _, header in iter_batches(buffer):
                found.append(Batch.of(header))
        assert found, f"no whole batch to read at {offset} below {end}"
        offset = found[-1].end_offset
    return found


def bytes_from(hosted: HostedPartition, offset: int) -> bytes:
    """A log from the batch that holds this offset."""
    log = hosted.log
    end = log.log_end_offset
    data = bytearray()
    while offset < end:
        for buffer in log.read(offset, 1 << 20, end_offset=end):
            data += buffer
            for _, header in iter_batches(buffer):
                offset = header.end_offset
    return bytes(data)
