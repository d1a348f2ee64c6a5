"""The ends of the archives of partitions led here, as their writers committed them to groups.

Rules: the group's coordinator, here or on another broker, is asked periodically, one request for
all partitions; a missing answer changes nothing, and what was heard before grows old. A follower
knows no end: it deletes what its leader has deleted.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from josefine_broker.base.archive_note import ARCHIVE_GROUP
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition, by_topic
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.log import partition_of
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.partition.archived_end import (
    NONE,
    NOTHING,
    Bound,
    Committed,
    LogPart,
    Witness,
    archived_end,
    heard,
    reported_end,
    smallest,
    table_end,
)
from josefine_broker.engine.ports import Gravity
from josefine_broker.wire.apis import OFFSET_FETCH
from josefine_broker.wire.entities import offset_fetch as e

TABLES_GROUP = "josefine-tables"
"""The group with the offsets that table topics have reached."""
ANSWER_MS_MAX = 5_000

Answers = Mapping[TopicPartition, Committed]


class ArchiveEnds:
    """See the module. Mutable; on the broker's thread."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._witnesses: dict[TopicPartition, Witness] = {}
        self._tables: dict[TopicPartition, Committed] = {}
        self._told: dict[TopicPartition, str] = {}
        self.waiting_bytes: dict[TopicPartition, int] = {}
        """What retention would delete at the last look if it did not wait, by partition."""

    def step(self) -> None:
        """Periodic: ask for the ends of all archived partitions that are led here."""
        led = dict(self._led())
        every = (self._witnesses, self._tables, self._told, self.waiting_bytes)
        for known in every:
            for tp in [each for each in known if each not in led]:
                known.pop(tp)
        if not led:
            return
        self._ask(ARCHIVE_GROUP, list(led), self._heard_archive)
        with_table = [tp for tp, each in led.items() if each.settings.table.location]
        if with_table:
            self._ask(TABLES_GROUP, with_table, self._tables.update)

    def bound(self, tp: TopicPartition) -> Bound:
        """How far retention may go in a partition of an archived topic."""
        hosted = self._ctx.hosted.partitions.get(tp)
        if hosted is None or not hosted.partition.is_leader:
            return Bound(NOTHING)
        now_ms = self._ctx.clock.monotonic_ms()
        topic_id = str(hosted.topic_id)
        partition = hosted.partition
        log = LogPart(
            hosted.log.log_start_offset, partition.high_watermark, partition.epochs.epoch_of
        )
        bounds = [archived_end(self._witnesses.get(tp, Witness()), topic_id, now_ms, log)]
        if hosted.settings.table.location:
            bounds.append(table_end(self._tables.get(tp, NONE)))
        return smallest(bounds)

    def reached(self, tp: TopicPartition) -> int:
        """The end of what the archive has of a partition that is led here; 0: nothing known."""
        hosted = self._ctx.hosted.partitions.get(tp)
        if hosted is None:
            return NOTHING
        witness = self._witnesses.get(tp, Witness())
        return reported_end(witness, str(hosted.topic_id), hosted.partition.high_watermark)

    def look(self, held_bytes: Callable[[TopicPartition], int]) -> None:
        """Periodic: report where retention has to wait; each reason once."""
        for tp in self._led():
            self._waits(tp, held_bytes(tp))

    def _waits(self, tp: TopicPartition, bytes_: int) -> None:
        self.waiting_bytes[tp] = bytes_
        why = self.bound(tp).why if bytes_ else ""
        if why and self._told.get(tp) != why:
            self._ctx.ports.tell(
                "retention waits for the archive",
                gravity=Gravity.WARNING,
                partition=str(tp),
                bytes=bytes_,
                reason=why,
            )
        self._told[tp] = why

    def reasons(self) -> Mapping[TopicPartition, str]:
        """The partitions whose retention waits although something is due, and why."""
        return {tp: why for tp, why in self._told.items() if why}

    def _led(self) -> Mapping[TopicPartition, HostedPartition]:
        return {
            TopicPartition(*tp): hosted
            for tp, hosted in self._ctx.hosted.partitions.items()
            if hosted.settings.log.archived and hosted.partition.is_leader
        }

    def _heard_archive(self, answers: Answers) -> None:
        now_ms = self._ctx.clock.monotonic_ms()
        for tp, committed in answers.items():
            before = self._witnesses.get(tp, Witness())
            self._witnesses[tp] = heard(before, committed, now_ms)

    def _ask(self, group: str, tps: list[TopicPartition], take: Callable[[Answers], None]) -> None:
        """Ask the group's coordinator for its offsets of these partitions."""
        ctx = self._ctx
        kept_in = partition_of(ctx, OFFSETS_TOPIC, group)
        entry = None if kept_in is None else ctx.image.partition(kept_in.topic, kept_in.partition)
        if entry is None:  # nobody has committed any offset
            return
        if entry.leader == ctx.broker_id:
            try:
                coordinator_of(ctx, group)
            except KafkaError:  # it is still loading
                return
            found = ctx.clients.groups.coordinator.offsets.committed(group)
            take(
                {
                    tp: Committed(each.offset, each.metadata) if (each := found.get(tp)) else NONE
                    for tp in tps
                }
            )
        elif entry.leader >= 0 and ctx.ports.forward is not None:
            topics = tuple(
                e.OffsetFetchRequestTopics(
                    name=name,
                    topic_id=ctx.image.topics[name].topic_id,
                    partition_indexes=tuple(indexes),
                )
                for name, indexes in by_topic(tps).items()
                if name in ctx.image.topics
            )
            asked = e.OffsetFetchRequestGroup(group_id=group, topics=topics)
            request = e.OffsetFetchRequest(groups=(asked,))
            deadline_ms = ctx.clock.monotonic_ms() + ANSWER_MS_MAX
            ctx.ports.forward(
                entry.leader, OFFSET_FETCH, request, deadline_ms, partial(self._answered, take)
            )

    def _answered(self, take: Callable[[Answers], None], answer: Any | None) -> None:
        """An answer of another broker; one with an error is none."""
        if answer is None or answer.groups[0].error_code is not ErrorCode.none:
            return
        found = {}
        for topic in answer.groups[0].topics:
            name = self._ctx.topic_name(topic.name or None, topic.topic_id)
            if name is None:  # deleted meanwhile
                continue
            for part in topic.partitions:
                if part.error_code is ErrorCode.none:
                    tp = TopicPartition(name, part.partition_index)
                    found[tp] = Committed(part.committed_offset, part.metadata or "")
        take(found)
