"""The reader of one topic: committed records only, as Arrow record batches with their offsets.

Rules: a fetch ends at the last stable offset, batches of aborted transactions give no rows but
advance the position; all partitions are read in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from josefine_arrow.batches.aborted_transactions import AbortedTransaction
from josefine_arrow.batches.decoder import decoder_class
from josefine_broker.base.archive_note import ArchivedRecord
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient
from josefine_broker.client.operations import partition_error
from josefine_lake.writer.little_memory import unmap_code
from josefine_lake.writer.start import Topic
from josefine_spark.base.topic_offsets import ByPartition
from josefine_spark.read.offsets import Bounds

READ_COMMITTED = 1
PARTITION_BYTES_MAX = 2 << 20
"""Bytes of one partition in a fetch: some are read at a time, and each is decoded at once."""
FETCH_BYTES_MAX = 4 << 20
NO_END = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """The records of a partition in one fetch. `next_offset`: the first one after them. `end`: the
    last stable offset at that time. `ends`: the first and the last offset that were read, with the
    leader epochs of their batches, markers and aborted records included; None: not known."""

    partition: TopicPartition
    batches: list[Any]
    next_offset: int
    end: int
    ends: tuple[ArchivedRecord, ArchivedRecord] | None = None


class OutOfRangeError(Exception):
    """A position is not in the log any more: a new start finds out why."""


class TopicReader:
    """Reads one topic. Mutable: a decoder for each partition."""

    columns: Sequence[str] | None = None
    """The columns of its records; None: those of a source without `decode`, with headers."""
    earliest = EARLIEST
    """The offset that counts as a partition's first one."""

    def __init__(self, client: BlockingClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._decoders: dict[TopicPartition, Any] = {}
        self._turn = 0

    def look(self) -> Topic:
        """The topic's id and the bounds of its partitions. Raises KafkaError."""
        cluster = self._client.metadata([self._topic])
        found = cluster.topics.get(self._topic)
        if found is None or not found.partitions:
            code = ErrorCode.unknown_topic_or_partition
            raise KafkaError(code, f"topic '{self._topic}' does not exist")
        partitions = [TopicPartition(self._topic, number) for number in found.partitions]
        earliest = self._client.list_offsets(dict.fromkeys(partitions, self.earliest))
        latest = self._client.list_offsets(dict.fromkeys(partitions, LATEST))
        bounds = {tp: Bounds(earliest[tp].offset, latest[tp].offset) for tp in partitions}
        return Topic(name=self._topic, id=str(cluster.topic_id(self._topic) or ""), bounds=bounds)

    def topic_id(self) -> str:
        """The topic's id as the last answers have it; sends no request."""
        return str(self._client.known_topic_id(self._topic) or "")

    def stable_ends(self, partitions: Mapping[TopicPartition, int]) -> ByPartition:
        """The last stable offset of each partition. Raises KafkaError."""
        wanted = dict.fromkeys(partitions, LATEST)
        found = self._client.list_offsets(wanted, isolation_level=READ_COMMITTED)
        return {tp: each.offset for tp, each in found.items()}

    def fetch(self, positions: ByPartition, wait_ms: int) -> list[Read]:
        """Read on; nothing after `wait_ms` without a record. Raises KafkaError, CorruptData,
        OutOfRangeError."""
        order = sorted(positions)
        # A full answer leaves out the last partitions, so each of them comes first in turn.
        self._turn = (self._turn + 1) % max(1, len(order))
        order = order[self._turn :] + order[: self._turn]
        answers = self._client.fetch(
            {tp: positions[tp] for tp in order},
            bytes_max=FETCH_BYTES_MAX,
            partition_bytes_max=PARTITION_BYTES_MAX,
            max_wait_ms=wait_ms,
            isolation_level=READ_COMMITTED,
        )
        found = []
        for tp, answer in answers.items():
            if answer.error_code is ErrorCode.offset_out_of_range:
                raise OutOfRangeError(f"{tp}: offset {positions[tp]} is not in the log any more")
            if answer.error_code is not ErrorCode.none:
                raise partition_error(tp, answer.error_code, None)
            aborted = [AbortedTransaction(a.producer_id, a.first_offset) for a in answer.aborted]
            decoded = self._decoder(tp).decode(answer.records, positions[tp], NO_END, aborted)
            if decoded.next_offset > positions[tp]:
                found.append(
                    Read(
                        partition=tp,
                        batches=decoded.batches,
                        next_offset=decoded.next_offset,
                        end=answer.last_stable_offset,
                        ends=self._ends(answer.records, positions[tp], decoded.next_offset),
                    )
                )
        return found

    def _ends(
        self, records: Any, position: int, next_offset: int
    ) -> tuple[ArchivedRecord, ArchivedRecord] | None:
        """See Read. A table needs no leader epochs."""
        return None

    def _decoder(self, tp: TopicPartition) -> Any:
        if tp not in self._decoders:
            self._decoders[tp] = _decoder_class()(
                tp.topic, tp.partition, include_headers=True, columns=self.columns
            )
        return self._decoders[tp]


@cache
def _decoder_class() -> Any:
    """The class of decoders, without what only its start needs: LLVM loads the kernels."""
    found = decoder_class()
    unmap_code()
    return found
