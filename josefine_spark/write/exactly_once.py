"""Writers of `delivery=exactly_once`: one transaction per task attempt, and one decision on the
driver for all of them. `protocol` decides; this module maps Spark's calls to its steps.

Rules: a batch is planned when its writer is pickled for the tasks. That is the only moment that
comes on the driver and exactly once per batch: for `commit` Spark creates another writer in another
process. So the plan travels to the tasks and returns with their commit messages. A task without
rows opens no transaction. A batch that is committed already is not written again.
"""

import logging
import pickle
import random
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from josefine_broker.base.errors import KafkaError
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.transactions import end_transactions, take_ids
from josefine_spark.base.checkpoint_files import fingerprint, query_id
from josefine_spark.base.errors import OptionError, SinkError, reason
from josefine_spark.options.connections import client_for, drop_client
from josefine_spark.options.options import SinkOptions
from josefine_spark.write.columns import check_columns
from josefine_spark.write.coordinator_store import SinkStore
from josefine_spark.write.delivery_log import TaskWritten, check_delivery_log, log_delivery
from josefine_spark.write.protocol import Plan, Written, commit, give_up, judge, plan
from josefine_spark.write.state import BATCH_WRITE, NUMBERED, Batch, Verdict, attempt_id

log = logging.getLogger("josefine.spark")

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties of Spark's streaming tasks."""


class PlanError(SinkError, pickle.PicklingError):
    """A failed plan; a PicklingError, because PySpark passes that one on unchanged."""


@dataclass
class AttemptWritten(TaskWritten):
    """A task attempt's commit message: what it wrote, for which plan and batch."""

    planned: Plan | None = None
    batch: Batch | None = None
    skipped: bool = False
    transactional_id: str | None = None
    """None: the attempt had no rows."""
    producer: ProducerIdentity | None = None


LOOKS_S = (0.0, 1.0, 2.0)
"""Pauses before each search for open transactions of a failed batch: Spark reports the failure
while other tasks still run and may open a transaction, until it kills them after two seconds
(`spark.python.task.killTimeout`)."""


class _ExactlyOnce:
    """Common base of both writers. `streaming` writers take the query id from its checkpoint."""

    streaming: bool

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(options, schema)
        check_delivery_log(options)
        if self.streaming and options.checkpoint is None:
            raise OptionError(
                "delivery=exactly_once needs the option checkpointLocation of this query"
            )
        if self.streaming and options.batch is not None:
            raise OptionError("batchId is for batch writes: Spark numbers a query's batches")
        self._options = options if self.streaming else replace(options, checkpoint=None)
        self._plan: Plan | None = None
        # Whether the batch that the topic has as decided is one of this checkpoint, by its offsets.
        self._decided_is_ours = False

    def __getstate__(self) -> dict[str, Any]:
        """The plan is made here, once: Spark pickles the writer on the driver for each batch,
        before any task runs, and offers no other hook there."""
        if self._plan is None:
            try:
                self._plan = self._new_plan()
            except SinkError as error:
                raise PlanError(str(error)) from error
        return self.__dict__

    def _new_plan(self) -> Plan:
        """Abort what an earlier attempt left open and take the next generation. On the driver.
        Raises SinkError."""
        options = self._options
        if options.checkpoint is not None:
            query = query_id(options.checkpoint)
        else:
            query = BATCH_WRITE if options.batch is None else NUMBERED
        sink_id = options.sink_id or (query if self.streaming else f"batch-{uuid.uuid4()}")
        steps = plan(sink_id, query, _wall_ms(), options.transaction_timeout_ms)
        planned: Plan = self._store(sink_id).run(steps)
        decided = planned.decided
        if decided is not None and options.checkpoint is not None:
            # Spark deletes old offset files; a batch without its file cannot run again either.
            with suppress(SinkError):
                found = fingerprint(options.checkpoint, decided.batch_id)
                self._decided_is_ours = found == decided.fingerprint
        return planned

    def _store(self, sink_id: str) -> SinkStore:
        """The sink's records, in the coordinator's topic of the cluster that is written to."""
        options = self._options
        client = client_for(options.connection, writing=True)
        return SinkStore(
            client,
            sink_id,
            options.transaction_timeout_ms,
            options.delivery_timeout_ms,
            two_phase=options.two_phase,
        )

    def write(self, iterator: Iterator[Any]) -> AttemptWritten:
        """In a task: write all rows, in a transaction that stays open."""
        assert self._plan is not None
        batch = self._batch_of_task(self._plan)
        message = AttemptWritten(planned=self._plan, batch=batch)
        if judge(self._plan.sink_id, self._plan.decided, batch) is Verdict.SKIP:
            message.skipped = True
            # Spark expects its rows to be read to the end.
            for _ in iterator:
                pass
            return message
        # An attempt without rows opens no transaction.
        first = next((each for each in iterator if each.num_rows), None)
        if first is not None:
            self._write_rows(message, self._plan, first, iterator)
        return message

    def _batch_of_task(self, planned: Plan) -> Batch:
        """The batch by Spark's local properties. Raises SinkError if they are of another query."""
        if not self.streaming:
            return _batch_of_write(self._options, planned)
        context = _task_context()
        query, number = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or number is None:
            raise SinkError(
                "delivery=exactly_once: this version of Spark does not pass the batch number to "
                "its tasks"
            )
        if query != planned.query_id:
            raise SinkError(
                f"checkpointLocation={self._options.checkpoint} is of query {planned.query_id}, "
                f"and this is query {query}: set the option to the checkpoint of this query"
            )
        # A task does not read the checkpoint: the driver has compared the decided batch's offsets.
        decided = planned.decided
        is_decided = decided is not None and self._decided_is_ours
        known = decided.fingerprint if decided is not None and is_decided else "another"
        return Batch(query_id=query, batch_id=int(number), fingerprint=known)

    def _write_rows(
        self, message: AttemptWritten, planned: Plan, first: Any, rest: Iterator[Any]
    ) -> None:
        from josefine_arrow.batches.encoder import Identity
        from josefine_spark.write.task_writer import TaskWriter

        options, connection = self._options, self._options.connection
        context = _task_context()
        # A name per attempt, not per task: a speculative or repeated attempt must not fence
        # another.
        name = attempt_id(
            planned.sink_id, planned.generation, context.partitionId(), context.taskAttemptId()
        )
        client = client_for(connection, writing=True)
        producer: ProducerIdentity | None = None
        try:
            outcome = client.run(
                lambda s, t, d: take_ids(
                    s, (name,), options.transaction_timeout_ms, t, d, two_phase=planned.two_phase
                ),
                timeout_ms=options.max_block_ms,
            )[name]
            if outcome.error is not None:
                raise outcome.error
            producer = outcome.result
            assert producer is not None
            identity = Identity(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transactional_id=name,
            )
            # Where rows without a key start: equal for all tasks it would load one partition.
            turn = random.randrange(1 << 16)
            writer = TaskWriter(client, self._options, turn, identity=identity)
            writer.add(first, _wall_ms())
            for batch in rest:
                writer.add(batch, _wall_ms())
            writer.flush(_wall_ms())
        except BaseException as error:
            # An aborted transaction does not hold up read_committed readers until its timeout.
            if producer is not None:
                _abort_quietly(client, name, producer)
            drop_client(connection, writing=True)
            if isinstance(error, KafkaError):
                raise SinkError(f"rows could not be written: {reason(error)}") from error
            raise
        message.delivery = writer.delivery
        message.transactional_id, message.producer = name, producer

    def _commit(self, messages: Sequence[WriterCommitMessage | None], number: int | None) -> None:
        """On the driver: decide the batch in the coordinator's topic, then end the transactions."""
        written = [each for each in messages if isinstance(each, AttemptWritten)]
        planned = next(each.planned for each in written if each.planned is not None)
        if not all(each.skipped for each in written):
            batch = self._decided_batch(planned, number)
            transactions = {
                each.transactional_id: each.producer
                for each in written
                if each.transactional_id is not None and each.producer is not None
            }
            # A batch write without a sink id is never repeated: nobody will look for its decision.
            forgets = not self.streaming and self._options.sink_id is None
            steps = commit(
                planned,
                Written(batch=batch, transactions=transactions),
                _wall_ms(),
                forgets=forgets,
            )
            self._store(planned.sink_id).run(steps)
        log_delivery(messages, number, self._options.delivery_log)

    def _decided_batch(self, planned: Plan, number: int | None) -> Batch:
        """The batch with the digest of its offsets, by which a repetition after a restart is
        recognized."""
        if number is None or self._options.checkpoint is None:
            return _batch_of_write(self._options, planned)
        found = fingerprint(self._options.checkpoint, number)
        return Batch(query_id=planned.query_id, batch_id=number, fingerprint=found)

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the batch. Without a message the plan is unknown, and the next plan aborts it."""
        for each in messages:
            if isinstance(each, AttemptWritten) and each.planned is not None:
                try:
                    self._give_up(each.planned)
                except SinkError as error:
                    log.warning("the batch's transactions are not aborted yet: %s", error)
                return

    def _give_up(self, planned: Plan) -> None:
        """Look several times: tasks that still run may open a transaction after a look."""
        for pause_s in LOOKS_S:
            time.sleep(pause_s)
            if not self._store(planned.sink_id).run(give_up(planned)):
                return


class ExactlyOnceWriter(_ExactlyOnce, DataSourceArrowWriter):
    """Batch writer: all rows become visible, or none."""

    streaming = False

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._commit(messages, None)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # In a batch write the driver keeps its plan, so it can abort although no task has answered.
        if self._plan is not None:
            messages = [*messages, AttemptWritten(planned=self._plan)]
        self._abort(messages)


class ExactlyOnceStreamWriter(_ExactlyOnce, DataSourceStreamArrowWriter):
    """Streaming writer: each micro-batch is written once, also when Spark repeats it."""

    streaming = True

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._commit(messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._abort(messages)


def _batch_of_write(options: SinkOptions, planned: Plan) -> Batch:
    """Of a batch write: numbered by the caller, or the only one of its query."""
    numbered = options.batch
    if numbered is None:
        return Batch(query_id=planned.query_id, batch_id=0, fingerprint="")
    return Batch(
        query_id=planned.query_id,
        batch_id=numbered.number,
        fingerprint=numbered.fingerprint,
        note=numbered.note,
    )


def _task_context() -> TaskContext:
    """The running task's. Only in a task."""
    context = TaskContext.get()
    assert context is not None, "a write runs in a task"
    return context


def _abort_quietly(client: Any, name: str, producer: ProducerIdentity) -> None:
    """Abort now, so that readers do not wait for it; the next plan would abort it too."""
    with suppress(KafkaError):
        client.run(lambda s, t, d: end_transactions(s, {name: producer}, False, t, d))


def _wall_ms() -> int:
    """Milliseconds since 1970: plan and commit are of different processes."""
    return time.time_ns() // 1_000_000
