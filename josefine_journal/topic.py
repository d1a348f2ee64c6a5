"""The topic of journals as a log: it writes records and reads a partition's records. Sockets, no
decisions.

Rules: a record is written once, even if its response is lost and it is sent again (an idempotent
producer per partition, one record in flight); after a failed write its outcome is unknown, and the
next write starts as a new producer; a read is bounded by offsets and by a timeout.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from uuid import UUID

from josefine_broker.base.errors import (
    CorruptData,
    ErrorCode,
    KafkaError,
    UnreadableBatchError,
)
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import FetchOptions
from josefine_broker.client.fetched import FetchedPartition
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.io_asyncio import EARLIEST, LATEST, AsyncClient, monotonic_ms
from josefine_broker.client.operations import partition_error
from josefine_broker.client.partitioner import partition_for_key
from josefine_broker.client.produce import UNKNOWN_OFFSET
from josefine_broker.client.producing import SEQUENCE_MASK
from josefine_broker.records.builder import Record, build_batch
from josefine_journal.continuity import continuous
from josefine_journal.errors import MISSING, JournalError, RecordsGone, RecordsLost
from josefine_journal.opening import UNAUTHORIZED, check_topic
from josefine_journal.readers import Readers

FETCH_BYTES = 1024 * 1024
FETCH_WAIT_MS = 500
STALL_MS_MAX = 30_000
"""Timeout of a read that gets no records although some were acknowledged there."""


class TopicLog:
    """The log of one topic, for one event loop. Raises KafkaError where the client does."""

    def __init__(
        self,
        client: AsyncClient,
        topic: str,
        readers: Readers | None = None,
        *,
        holds_journals: bool = True,
    ) -> None:
        """Without `readers` the client also reads. `holds_journals`: check the topic when it is
        opened (`josefine_journal.opening`)."""
        self.topic = topic
        self._client = client
        self._readers = readers
        self._holds_journals = holds_journals
        self._opened: tuple[UUID | None, int] | None = None
        self._writers: dict[int, _Writer] = {}

    @property
    def topic_id(self) -> UUID | None:
        """The topic's id in the client's metadata; None if the brokers have no topic ids."""
        return self._client.topic_id(self.topic)

    async def partition_count(self) -> int:
        """The count at the time when the topic was opened; a recreated topic is opened again.

        Raises TopicWidened and TopicCompacted for a topic from which journals cannot be read.
        """
        if self._opened is None or self._opened[0] != self.topic_id:
            count = await self._client.partition_count(self.topic)
            if self._holds_journals:
                await check_topic(self, count)
            self._opened = self.topic_id, count
        return self._opened[1]

    async def partition_of(self, key: bytes) -> int:
        """The partition of Kafka's default partitioner for that key."""
        return partition_for_key(key, await self.partition_count())

    async def start_offset(self, partition: int) -> int:
        """The log start offset."""
        tp = TopicPartition(self.topic, partition)
        return (await self._client.list_offsets({tp: EARLIEST}))[tp].offset

    async def start_offsets(self, partitions: Sequence[int]) -> dict[int, int]:
        wanted = {TopicPartition(self.topic, partition): EARLIEST for partition in partitions}
        listed = await self._client.list_offsets(wanted)
        return {tp.partition: found.offset for tp, found in listed.items()}

    async def configs(self) -> Mapping[str, str]:
        """The topic's configuration; empty if this client is not authorized to describe it."""
        try:
            found = (await self._client.describe_configs([self.topic]))[self.topic]
        except KafkaError as error:
            if error.code in UNAUTHORIZED:
                return {}
            raise
        return {name: entry.value for name, entry in found.items() if entry.value is not None}

    async def end_offsets(self, partitions: Sequence[int]) -> dict[int, int]:
        """End offsets (exclusive) of the records that consumers may see."""
        wanted = {TopicPartition(self.topic, partition): LATEST for partition in partitions}
        listed = await self._client.list_offsets(wanted)
        return {tp.partition: found.offset for tp, found in listed.items()}

    async def write(self, partition: int, record: Record) -> int:
        """Write one record with acks=all; returns its offset."""
        return await self._writer(partition).write((record,))

    async def write_all(self, partition: int, records: Sequence[Record]) -> None:
        """Write the records as one batch with acks=all."""
        await self._writer(partition).write(records)

    def _writer(self, partition: int) -> "_Writer":
        writer = self._writers.get(partition)
        if writer is None:
            tp = TopicPartition(self.topic, partition)
            writer = self._writers[partition] = _Writer(self._client, tp)
        return writer

    async def read(
        self, partition: int, begin: int, end: int
    ) -> AsyncGenerator[list[Record], None]:
        """The records from `begin` to `end` (exclusive), one list per fetch.

        Raises RecordsGone if the log starts after `begin`, RecordsLost for offsets in between that
        have neither a record nor a transaction marker, JournalError for a damaged batch and after
        the timeout.
        """
        tp = TopicPartition(self.topic, partition)
        options = FetchOptions(partition_bytes_max=FETCH_BYTES, max_wait_ms=FETCH_WAIT_MS)
        at, deadline_ms = begin, monotonic_ms() + STALL_MS_MAX
        while at < end:
            part = await self._fetched(tp, at, options)
            _check(tp, at, part)
            try:
                found = continuous(part.records, at, end)
            except UnreadableBatchError as error:
                raise JournalError(f"{tp}: {error}") from error
            except CorruptData as error:
                raise JournalError(f"partition {tp} is damaged: {error}") from error
            if found.records:
                yield found.records
            if found.gap_end is not None:
                _check_gap(tp, found.next_offset, found.gap_end, part)
            if found.next_offset != at:
                at, deadline_ms = found.next_offset, monotonic_ms() + STALL_MS_MAX
            elif monotonic_ms() > deadline_ms:
                raise JournalError(f"partition {tp} has no record at {at}, which was acknowledged")

    async def _fetched(
        self, tp: TopicPartition, at: int, options: FetchOptions
    ) -> FetchedPartition:
        if self._readers is None:
            return (await self._client.fetch({tp: at}, options))[tp]
        async with self._readers.reader() as client:
            return (await client.fetch({tp: at}, options))[tp]


def _check(tp: TopicPartition, at: int, part: FetchedPartition) -> None:
    if part.error_code is ErrorCode.offset_out_of_range:
        raise RecordsGone(f"partition {tp}: offset {at} went away while the journal was read")
    if part.error_code is not ErrorCode.none:
        raise partition_error(tp, part.error_code, None)


def _check_gap(tp: TopicPartition, begin: int, end: int, part: FetchedPartition) -> None:
    """Raises RecordsLost, or RecordsGone if retention deleted the records during the read."""
    if end <= part.log_start_offset:
        raise RecordsGone(f"partition {tp}: offset {begin} went away while the journal was read")
    raise RecordsLost(tp.topic, tp.partition, begin=begin, end=end, reason=MISSING)


class _Writer:
    """The idempotent producer of one partition (KIP-98)."""

    def __init__(self, client: AsyncClient, tp: TopicPartition) -> None:
        self._client = client
        self._tp = tp
        self._turn = asyncio.Lock()
        self._identity: ProducerIdentity | None = None
        self._sequence = 0

    async def write(self, records: Sequence[Record]) -> int:
        """Write a batch; returns the offset of its first record."""
        async with self._turn:
            if self._identity is None:
                self._identity, self._sequence = await self._client.init_producer_id(), 0
            batch = build_batch(
                records,
                producer_id=self._identity.producer_id,
                producer_epoch=self._identity.producer_epoch,
                base_sequence=self._sequence,
            )
            try:
                offset = (await self._client.produce({self._tp: batch}))[self._tp]
            except BaseException:
                self._identity = None
                raise
            self._sequence = (self._sequence + len(records)) & SEQUENCE_MASK
        if offset == UNKNOWN_OFFSET:
            raise JournalError(f"partition {self._tp}: the record is written at an unknown offset")
        return offset
