"""The exactly-once sink's store on a broker: it performs the protocol's steps with nothing but the
Kafka protocol.

The records of sinks are in the compacted topic `__josefine_sinks`, which the first sink creates.
They are written outside of transactions, by the producer of the sink's own transactional id. A
driver that takes the id over writes first; from then on the partition leader rejects every older
epoch. That id also asks to be a two-phase participant, although nothing is written in its
transactions: the answer shows whether the broker lets such transactions stay open (KIP-939).
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
"""The active segment is never compacted: a small one keeps reads short."""
FENCE = b"fence:"
"""Key prefix before a sink's id: a record that only fences, written once for each take-over."""
OWN_TIMEOUT_MS = 60_000
"""Transaction timeout of the sink's own transactional id, in which nothing is ever written."""
EPOCH_LAST = 2**15 - 1
"""The highest epoch; no producer ever receives it."""

NOT_OURS = {
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.invalid_txn_state,
    ErrorCode.transactional_id_not_found,
}
"""Errors that mean: the transaction has already ended, or its id has another producer."""


REFUSED = {ErrorCode.transactional_id_authorization_failed, ErrorCode.unsupported_version}
"""Answers of a broker that allows two-phase commit to nobody, or not to this client."""


class SinkStore:
    """Runs one sink's protocol on one client. `attempt_timeout_ms`: timeout of the tasks'
    transactions; `two_phase`: whether they are two-phase participants, None: if the broker allows
    it."""

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
        """Perform all steps; returns the generator's result. Raises SinkError."""
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
        """Become the driver. The first write, with sequence 0, is what fences the one before."""
        open_ms, taken = self._take_own()
        # Ending a transaction that never started succeeds only with transactions of version 2.
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
        # After its last epoch, or after its id expired, the id has a new producer id, whose epochs
        # do not fence the old one: a write in the old one's highest epoch does.
        if before not in (None, driver.producer_id):
            self._append(Driver(before, EPOCH_LAST, 0), self._fence, b"")
        return after

    def _take_own(self) -> tuple[int, ProducerIdentity]:
        """How long transactions of two-phase participants may stay open (0: no two-phase commit),
        and the producer of the sink's own id."""
        if self._two_phase is not False:
            outcome = self._client.run(
                lambda s, t, d: transactions.take_ids(
                    s, (self._id,), OWN_TIMEOUT_MS, t, d, two_phase=True
                ),
                timeout_ms=self._timeout_ms,
            )[self._id]
            if outcome.error is None:
                described = self._client.run(
                    lambda s, t, d: describe_transaction(s, self._id, t, d),
                    timeout_ms=self._timeout_ms,
                )
                return described.timeout_ms, outcome.result
            if outcome.error.code not in REFUSED:
                raise outcome.error
            if self._two_phase:
                raise SinkError(
                    f"sink {self._sink_id}: kafka.transaction.two.phase.commit.enable=true, but "
                    "the broker does not let it take part in a two-phase commit: set "
                    "transactions.two_phase_commit_enable on the broker (KIP-939)"
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
        """The partition of the sink's record. It depends on PARTITIONS only, not on how many
        partitions the topic has by now."""
        if self._tp is None:
            if self._client.metadata([TOPIC]).topics[TOPIC].error_code is not ErrorCode.none:
                with suppress(_TopicIsThereError):
                    self._create()
            if self._client.partition_count(TOPIC) < PARTITIONS:
                raise SinkError(f"topic {TOPIC} must have at least {PARTITIONS} partitions")
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
    """Another client has created the topic in the meantime."""


class _RecordReader:
    """The newest record per sink in one partition; each read continues at the last one's end.
    Mutable."""

    def __init__(self) -> None:
        self._offset = 0
        self.records: dict[bytes, bytes | None] = {}
        """Sink id → record; None: deleted."""
        self._writers: dict[bytes, int] = {}

    def state(self, sink_id: str) -> SinkState:
        """Raises CorruptData."""
        value = self.records.get(sink_id.encode())
        return SinkState() if value is None else SinkState.decode(value)

    def writer(self, sink_id: str) -> int | None:
        """The producer id of its newest record."""
        return self._writers.get(sink_id.encode())

    def read(self, client: BlockingClient, tp: TopicPartition, end: int, timeout_ms: int) -> None:
        """Read up to `end` (exclusive). Raises KafkaError."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        while self._offset < end:
            if time.monotonic() > deadline_s:
                raise KafkaError(
                    ErrorCode.request_timed_out,
                    f"{tp} was read up to offset {self._offset} of {end} within {timeout_ms} ms",
                )
            fetched = client.fetch({tp: self._offset}, timeout_ms=timeout_ms).get(tp)
            if fetched is None:
                continue
            # An offset below the log's start and offsets removed by compaction are no errors here:
            # only the newest record of each sink matters.
            before = self._offset
            if fetched.error_code is ErrorCode.offset_out_of_range:
                self._offset = fetched.log_start_offset
            else:
                self._take(fetched.records)
            if self._offset == before and fetched.high_watermark >= end:
                self._offset = end  # compaction has removed all records up to `end`

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
