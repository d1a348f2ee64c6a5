"""Takes the steps of the exactly-once sink's protocol with a real broker, Kafka's own wire protocol
and nothing else.

The records of sinks are in the topic `__josefine_sinks`, compacted, made by the first sink. A
record is written in a transaction of its sink's own id, so that who was fenced writes none. It
counts when that transaction's marker says so; a reader sees the markers themselves, and waits for
no other sink.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import transactions
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.io_blocking import LATEST, BlockingClient, NewTopic
from josefine_broker.client.operations import Outcome
from josefine_broker.client.partitioner import partition_for_key
from josefine_broker.client.transaction_admin import list_transactions
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.control import read_marker
from josefine_broker.records.reader import read_records
from josefine_spark.errors import SinkError, reason
from josefine_spark.sink_state import SinkState, driver_id
from josefine_spark.sink_steps import (
    Abort,
    AreOpen,
    Commit,
    FindOpen,
    Read,
    Seen,
    Steps,
    TakeOver,
    Write,
)

TOPIC = "__josefine_sinks"
PARTITIONS = 8
CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20)}
"""The open segment is never compacted: a small one keeps reading short."""
RECORD_TIMEOUT_MS = 30_000
"""Of the transaction around one record. A driver that dies there holds back its own sink only."""

NOT_OURS = {
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.invalid_txn_state,
    ErrorCode.transactional_id_not_found,
}
"""The transaction ended otherwise, or its producer is another one."""


class SinkStore:
    """One sink's protocol on one client. `attempt_timeout_ms`: of its tasks' transactions."""

    def __init__(
        self, client: BlockingClient, sink_id: str, attempt_timeout_ms: int, timeout_ms: int
    ) -> None:
        self._client = client
        self._sink_id = sink_id
        self._id = driver_id(sink_id)
        self._attempt_timeout_ms = attempt_timeout_ms
        self._timeout_ms = timeout_ms
        self._reader = _RecordReader()

    def run(self, steps: Steps) -> Any:
        """To their end; what they return. Raises SinkError."""
        result = None
        try:
            while True:
                result = self._take(steps.send(result))
        except StopIteration as stop:
            return stop.value
        except KafkaError as error:
            raise SinkError(f"sink {self._sink_id}: {reason(error)}") from error
        except CorruptData as error:
            raise SinkError(f"sink {self._sink_id}: {error}") from error

    def _take(self, step: Any) -> Any:
        match step:
            case TakeOver():
                return self._take_over()
            case Read():
                return self._read()
            case Write(producer, state):
                return self._write(producer, state)
            case FindOpen():
                return self._find_open()
            case Abort(ids):
                self._take_ids(ids, self._attempt_timeout_ms)
            case AreOpen(producers):
                return self._not_open(producers)
            case Commit(producers):
                return self._commit(producers)
        return None

    def _take_over(self) -> ProducerIdentity:
        return self._take_ids((self._id,), RECORD_TIMEOUT_MS)[self._id]

    def _take_ids(self, ids: tuple[str, ...], timeout_ms: int) -> dict[str, ProducerIdentity]:
        outcomes = self._client.run(
            lambda s, t, d: transactions.take_ids(s, ids, timeout_ms, t, d),
            timeout_ms=self._timeout_ms,
        )
        return {each: _result(outcome) for each, outcome in outcomes.items()}

    def _read(self) -> Seen:
        tp = self._partition(create=True)
        end = self._client.list_offsets({tp: LATEST})[tp].offset
        self._reader.read(self._client, tp, end, self._timeout_ms)
        return self._reader.seen(self._sink_id)

    def _write(self, producer: ProducerIdentity, state: SinkState | None) -> ProducerIdentity:
        tp = self._partition()
        key, value = self._sink_id.encode(), None if state is None else state.encode()
        batch = build_batch(
            [Record(key, value, (), time.time_ns() // 1_000_000)],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        outcome = self._client.produce_outcomes(
            {tp: batch}, timeout_ms=self._timeout_ms, transactional_id=self._id
        )[tp]
        self._check_fenced(outcome)
        ended = self._ends({self._id: producer})[self._id]
        self._check_fenced(ended)
        following: ProducerIdentity | None = ended.result
        if following is None:
            raise SinkError(
                f"sink {self._sink_id}: delivery=exactly_once needs a broker with transactions of "
                "version 2 (KIP-890; Kafka 4.0 or newer)"
            )
        return following

    def _check_fenced(self, outcome: Outcome) -> None:
        error = outcome.error
        if error is not None and error.code in NOT_OURS:
            raise SinkError(f"sink {self._sink_id}: another run has taken it over") from error
        _result(outcome)

    def _find_open(self) -> list[str]:
        found = self._client.run(
            lambda s, t, d: list_transactions(s, ("Ongoing",), -1, t, d),
            timeout_ms=self._timeout_ms,
        )
        return [each.transactional_id for each in found]

    def _not_open(self, producers: Mapping[str, ProducerIdentity]) -> tuple[str, ...]:
        found = self._client.run(
            lambda s, t, d: transactions.are_open(s, producers, t, d), timeout_ms=self._timeout_ms
        )
        return tuple(each for each in producers if not found[each])

    def _commit(self, producers: Mapping[str, ProducerIdentity]) -> tuple[str, ...]:
        otherwise = []
        for each, outcome in self._ends(producers).items():
            if outcome.error is not None and outcome.error.code in NOT_OURS:
                otherwise.append(each)
            else:
                _result(outcome)
        return tuple(otherwise)

    def _ends(self, producers: Mapping[str, ProducerIdentity]) -> dict[str, Outcome]:
        return self._client.run(
            lambda s, t, d: transactions.end_transactions(s, producers, True, t, d),
            timeout_ms=self._timeout_ms,
        )

    def _partition(self, *, create: bool = False) -> TopicPartition:
        """Where the sink's record is, however many partitions the topic has got since."""
        if create and self._client.metadata([TOPIC]).topics[TOPIC].error_code is not ErrorCode.none:
            with suppress(_TopicIsThereError):
                self._create()
        if self._client.partition_count(TOPIC) < PARTITIONS:
            raise SinkError(f"the topic {TOPIC} must have {PARTITIONS} partitions")
        return TopicPartition(TOPIC, partition_for_key(self._sink_id.encode(), PARTITIONS))

    def _create(self) -> None:
        try:
            self._client.create_topics([NewTopic(TOPIC, PARTITIONS, configs=CONFIGS)])
        except KafkaError as error:
            if error.code is not ErrorCode.topic_already_exists:
                raise
            raise _TopicIsThereError from error


class _TopicIsThereError(Exception):
    """Somebody else has made it meanwhile."""


class _RecordReader:
    """The newest records of one partition, by sink, read on from where it stood. Mutable."""

    def __init__(self) -> None:
        self._offset = 0
        self.records: dict[bytes, bytes | None] = {}
        """By sink id; None: it is forgotten."""
        self._written: dict[int, tuple[bytes, bytes | None]] = {}
        """By producer: a record whose transaction has not ended."""

    def seen(self, sink_id: str) -> Seen:
        """Raises CorruptData."""
        key = sink_id.encode()
        value = self.records.get(key)
        state = SinkState() if value is None else SinkState.decode(value)
        return Seen(state, all(each != key for each, _ in self._written.values()))

    def read(self, client: BlockingClient, tp: TopicPartition, end: int, timeout_ms: int) -> None:
        """On to `end`. Raises KafkaError."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        while self._offset < end:
            if time.monotonic() > deadline_s:
                raise KafkaError(ErrorCode.request_timed_out, f"{tp} could not be read to its end")
            fetched = client.fetch({tp: self._offset}, timeout_ms=timeout_ms).get(tp)
            if fetched is None:
                continue
            before = self._offset
            if fetched.error_code is ErrorCode.offset_out_of_range:
                self._offset = fetched.log_start_offset
            else:
                self._take(fetched.records)
            if self._offset == before and fetched.high_watermark >= end:
                self._offset = end  # compaction has left nothing there

    def _take(self, records: memoryview) -> None:
        for pos, header in iter_batches(records):
            batch = records[pos : pos + header.size_bytes]
            if header.end_offset <= self._offset:
                continue
            self._offset = header.end_offset
            if header.is_control:
                marker = read_marker(batch)
                ended = self._written.pop(header.producer_id, None)
                if marker is not None and marker.is_commit and ended is not None:
                    self.records[ended[0]] = ended[1]
                continue
            for record in read_records(batch):
                self._written[header.producer_id] = record.key or b"", record.value


def all_sinks(client: BlockingClient, timeout_ms: int) -> dict[str, SinkState]:
    """Every sink that has a record, by its id. Raises KafkaError or CorruptData."""
    if client.metadata([TOPIC]).topics[TOPIC].error_code is not ErrorCode.none:
        return {}
    found: dict[str, SinkState] = {}
    for index in range(client.partition_count(TOPIC)):
        reader = _RecordReader()
        tp = TopicPartition(TOPIC, index)
        end = client.list_offsets({tp: LATEST})[tp].offset
        reader.read(client, tp, end, timeout_ms)
        for key, value in reader.records.items():
            if value is not None:
                found[key.decode(errors="replace")] = SinkState.decode(value)
    return dict(sorted(found.items()))


def _result(outcome: Outcome) -> Any:
    if outcome.error is not None:
        raise outcome.error
    return outcome.result
