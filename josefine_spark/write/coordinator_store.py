"""Takes the steps of the exactly-once sink's protocol with a real broker, Kafka's own wire protocol
and nothing else.

The records of sinks are in the topic `__josefine_sinks`, compacted, made by the first sink. They
are written outside of transactions, by the producer of the sink's own transactional id: who takes
the id over writes first, and from then on the partition's leader takes nothing of an older epoch.
Whether the broker lets transactions of two-phase participants stay open (KIP-939) it says when that
id asks to be one, though nothing is ever written under it.
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
from josefine_broker.client.transaction_admin import describe_transaction, list_transactions
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.reader import read_records
from josefine_spark.base.errors import SinkError, reason
from josefine_spark.write.protocol import (
    TAKEN_OVER,
    Abort,
    AreOpen,
    Commit,
    Driver,
    FindOpen,
    Read,
    Steps,
    TakeOver,
    Write,
)
from josefine_spark.write.state import SinkState, driver_id

TOPIC = "__josefine_sinks"
PARTITIONS = 8
CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20)}
"""The open segment is never compacted: a small one keeps reading short."""
FENCE = b"fence:"
"""Before a sink's id: the key of what is written only to fence, once for each take-over."""
OWN_TIMEOUT_MS = 60_000
"""Of the sink's own transactional id, in which nothing is ever written."""
EPOCH_LAST = 2**15 - 1
"""No producer is given it."""

NOT_OURS = {
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.invalid_txn_state,
    ErrorCode.transactional_id_not_found,
}
"""The transaction ended otherwise, or its producer is another one."""


REFUSED = {ErrorCode.transactional_id_authorization_failed, ErrorCode.unsupported_version}
"""What a broker says that lets nobody take part in a two-phase commit, or this client not."""


class SinkStore:
    """One sink's protocol on one client. `attempt_timeout_ms`: of its tasks' transactions;
    `two_phase`: whether they take part in a two-phase commit, None: where the broker lets them."""

    def __init__(
        self,
        client: BlockingClient,
        sink_id: str,
        attempt_timeout_ms: int,
        timeout_ms: int,
        *,
        two_phase: bool | None = None,
    ) -> None:
        self._two_phase = two_phase
        self._client = client
        self._sink_id = sink_id
        self._id = driver_id(sink_id)
        self._attempt_timeout_ms = attempt_timeout_ms
        self._timeout_ms = timeout_ms
        self._fence = FENCE + sink_id.encode()
        self._reader = _RecordReader()
        self._tp: TopicPartition | None = None

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
            case Write(driver, state):
                return self._write(driver, state)
            case FindOpen():
                return self._find_open()
            case Abort(ids):
                self._take_ids(ids, self._attempt_timeout_ms)
            case AreOpen(producers):
                return self._not_open(producers)
            case Commit(producers):
                return self._commit(producers)
        return None

    def _take_over(self) -> Driver:
        """Its first write, of number 0, is what fences."""
        open_ms, taken = self._take_own()
        # An end of nothing: what tells version 2 from those before.
        outcome = self._ends({self._id: taken}, is_commit=False)[self._id]
        producer = outcome.result
        if producer is None:
            raise SinkError(
                f"sink {self._sink_id}: delivery=exactly_once needs a broker with transactions of "
                "version 2 (KIP-890; Kafka 4.0 or newer)"
            )
        driver = Driver(producer.producer_id, producer.producer_epoch, 0, open_ms)
        after = self._append(driver, self._fence, b"")
        self._read()
        before = self._reader.writer(self._sink_id)
        if before not in (None, driver.producer_id):  # its epochs, or its id's time, are used up
            self._append(Driver(before, EPOCH_LAST, 0), self._fence, b"")
        return after

    def _take_own(self) -> tuple[int, ProducerIdentity]:
        """The sink's id, and how long transactions of participants may be open, 0: there are
        none."""
        if self._two_phase is not False:
            outcome = self._client.run(
                lambda s, t, d: transactions.take_ids(
                    s, (self._id,), OWN_TIMEOUT_MS, t, d, two_phase=True
                ),
                timeout_ms=self._timeout_ms,
            )[self._id]
            if outcome.error is None:
                told = self._client.run(
                    lambda s, t, d: describe_transaction(s, self._id, t, d),
                    timeout_ms=self._timeout_ms,
                )
                return told.timeout_ms, outcome.result
            if outcome.error.code not in REFUSED:
                raise outcome.error
            if self._two_phase:
                raise SinkError(
                    f"sink {self._sink_id}: kafka.transaction.two.phase.commit.enable=true, and "
                    "the broker does not let it take part in a two-phase commit: that needs "
                    "transactions.two_phase_commit_enable there (KIP-939)"
                ) from outcome.error
        return 0, self._take_ids((self._id,), OWN_TIMEOUT_MS)[self._id]

    def _take_ids(self, ids: tuple[str, ...], timeout_ms: int) -> dict[str, ProducerIdentity]:
        outcomes = self._client.run(
            lambda s, t, d: transactions.take_ids(s, ids, timeout_ms, t, d),
            timeout_ms=self._timeout_ms,
        )
        return {each: _result(outcome) for each, outcome in outcomes.items()}

    def _read(self) -> SinkState:
        tp = self._partition()
        end = self._client.list_offsets({tp: LATEST})[tp].offset
        self._reader.read(self._client, tp, end, self._timeout_ms)
        return self._reader.state(self._sink_id)

    def _write(self, driver: Driver, state: SinkState | None) -> Driver:
        key, value = self._sink_id.encode(), None if state is None else state.encode()
        return self._append(driver, key, value)

    def _append(self, driver: Driver, key: bytes, value: bytes | None) -> Driver:
        tp = self._partition()
        batch = build_batch(
            [Record(key, value, (), time.time_ns() // 1_000_000)],
            producer_id=driver.producer_id,
            producer_epoch=driver.epoch,
            base_sequence=driver.sequence,
        )
        outcome = self._client.produce_outcomes({tp: batch}, timeout_ms=self._timeout_ms)[tp]
        if outcome.error is not None and outcome.error.code in NOT_OURS:
            raise SinkError(f"sink {self._sink_id}: {TAKEN_OVER}") from outcome.error
        _result(outcome)
        return driver._replace(sequence=driver.sequence + 1)

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
        for each, outcome in self._ends(producers, is_commit=True).items():
            if outcome.error is not None and outcome.error.code in NOT_OURS:
                otherwise.append(each)
            else:
                _result(outcome)
        return tuple(otherwise)

    def _ends(
        self, producers: Mapping[str, ProducerIdentity], *, is_commit: bool
    ) -> dict[str, Outcome]:
        return self._client.run(
            lambda s, t, d: transactions.end_transactions(s, producers, is_commit, t, d),
            timeout_ms=self._timeout_ms,
        )

    def _partition(self) -> TopicPartition:
        """Where the sink's record is, however many partitions the topic has got since."""
        if self._tp is None:
            if self._client.metadata([TOPIC]).topics[TOPIC].error_code is not ErrorCode.none:
                with suppress(_TopicIsThereError):
                    self._create()
            if self._client.partition_count(TOPIC) < PARTITIONS:
                raise SinkError(f"the topic {TOPIC} must have {PARTITIONS} partitions")
            number = partition_for_key(self._sink_id.encode(), PARTITIONS)
            self._tp = TopicPartition(TOPIC, number)
        return self._tp

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
        self._writers: dict[bytes, int] = {}

    def state(self, sink_id: str) -> SinkState:
        """Raises CorruptData."""
        value = self.records.get(sink_id.encode())
        return SinkState() if value is None else SinkState.decode(value)

    def writer(self, sink_id: str) -> int | None:
        """The producer id of its newest record."""
        return self._writers.get(sink_id.encode())

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
                continue
            for record in read_records(batch):
                key = record.key or b""
                self.records[key] = record.value
                self._writers[key] = header.producer_id


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
            if value is not None and not key.startswith(FENCE):
                found[key.decode(errors="replace")] = SinkState.decode(value)
    return dict(sorted(found.items()))


def _result(outcome: Outcome) -> Any:
    if outcome.error is not None:
        raise outcome.error
    return outcome.result
