"""The commit protocol of the exactly-once sink, step by step, without I/O (sink-protocol.md).

`plan`, `commit` and `give_up` are generators: each yields a step and is resumed with its result, so
that tests can stop or hold a driver between any two steps. `coordinator_store` performs the steps.

Rules:
- a driver aborts nothing before its own generation is written, and then only older generations;
- a decision is written as the producer of the sink's own transactional id, so a fenced driver
  cannot write one;
- a decided batch is committed, with retries, until every transaction is committed; no other batch
  is planned before that;
- transactions that are open and not decided are aborted after every decision, and by a driver that
  gives a batch up, once it is sure that no decision exists or is still in flight.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from josefine_broker.client.groups import ProducerIdentity
from josefine_spark.base.errors import SinkError
from josefine_spark.write.state import (
    NUMBERED,
    VERDICTS,
    Batch,
    Phase,
    Relation,
    SinkState,
    Verdict,
    generation_of,
    relation,
)

DECIDED_WITHIN = 0.8
"""Fraction of the transaction timeout within which a batch must be decided. The rest is the time
for ending its transactions, also for the next driver."""


DECIDE_MS = 60_000
"""Replaces the transaction timeout for a batch without transactions."""
TAKEN_OVER = "another run has taken it over"
"""Part of the error message of a fenced driver."""


class Driver(NamedTuple):
    """The producer that writes the sink's record, and the sequence number of its next write. Of two
    writes with one number the first to arrive counts; the broker drops the other one as a duplicate
    (KIP-98)."""

    producer_id: int
    epoch: int
    sequence: int
    open_ms: int = 0
    """How long the broker leaves transactions of a two-phase participant open (KIP-939); 0: each
    transaction has the timeout that it asks for."""


class TakeOver(NamedTuple):
    """Become the sink's driver. Result: `Driver`. Afterwards no write of an earlier driver is
    accepted."""


class Read(NamedTuple):
    """Result: the newest `SinkState`."""


class Write(NamedTuple):
    """Make `state` the sink's record, durably and only as this driver; None deletes the record.
    Result: the `Driver` for the next write. Raises SinkError if another driver has taken over or
    the outcome of the write is unknown."""

    driver: Driver
    state: SinkState | None


class FindOpen(NamedTuple):
    """Result: all transactional ids (str) with an open transaction, also those of other users."""


class Abort(NamedTuple):
    """End the transactions of these ids and fence their producers."""

    ids: tuple[str, ...]


class AreOpen(NamedTuple):
    """Result: those of these ids (tuple of str) whose transaction is no longer open under this
    producer."""

    transactions: Mapping[str, ProducerIdentity]


class Commit(NamedTuple):
    """Commit these transactions, with retries. Result: the ids (tuple of str) whose transaction had
    already ended without this commit."""

    transactions: Mapping[str, ProducerIdentity]


Step: TypeAlias = TakeOver | Read | Write | FindOpen | Abort | AreOpen | Commit
Steps: TypeAlias = Generator[Step, Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A driver's plan of one micro-batch; travels to the tasks and back."""

    sink_id: str
    query_id: str
    generation: int
    driver: Driver
    decided: Batch | None
    planned_ms: int
    """Wall-clock time of the driver's machine."""
    timeout_ms: int
    """How long after `planned_ms` the transactions may stay open."""
    two_phase: bool = False
    """The tasks' transactions are those of two-phase participants: the broker bounds their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A batch that its tasks have written, with the open transaction of each task attempt."""

    batch: Batch
    transactions: Mapping[str, ProducerIdentity] = field(default_factory=dict)


def judge(sink_id: str, decided: Batch | None, batch: Batch) -> Verdict:
    """Whether a batch is to be written. Raises SinkError where the record cannot answer that."""
    found = relation(decided, batch)
    if VERDICTS[found] is Verdict.STOP:
        assert decided is not None
        raise SinkError(_why_stopped(sink_id, found, decided, batch))
    return VERDICTS[found]


def plan(sink_id: str, query_id: str, planned_ms: int, timeout_ms: int) -> Steps:
    """Before a batch: settle the last decision, abort leftover transactions. Returns `Plan`."""
    # The query is checked before the take-over, so that a query with the wrong sinkId does not
    # fence the rightful one, and again after it, because the record may have changed in between.
    state: SinkState = yield Read()
    _check_query(sink_id, state, query_id)
    driver: Driver = yield TakeOver()
    state = yield Read()
    _check_query(sink_id, state, query_id)
    # A decided batch is committed first: abort and plan would otherwise lose decided rows.
    if state.phase is Phase.DECIDED:
        yield from _end_decided(sink_id, state)
        state = state.settled()
    before = state.generation
    state = state.planned()
    # The new generation is durable before anything is aborted: a driver that lost a race fails at
    # this write and so never aborts transactions of its successor.
    driver = yield Write(driver, state)
    yield from _abort_left(sink_id, before)
    return Plan(
        sink_id=sink_id,
        query_id=query_id,
        generation=state.generation,
        driver=driver,
        decided=state.decided,
        planned_ms=planned_ms,
        timeout_ms=driver.open_ms or timeout_ms,
        two_phase=driver.open_ms > 0,
    )


def commit(planned: Plan, written: Written, now_ms: int, *, forgets: bool = False) -> Steps:
    """Decide the batch and commit its transactions. `forgets`: the sink will not be used again, so
    its record is deleted. Raises SinkError."""
    sink_id, transactions = planned.sink_id, written.transactions
    state: SinkState = yield Read()
    if state.generation != planned.generation:
        raise SinkError(f"sink {sink_id}: {TAKEN_OVER}; nothing was committed")
    # A decision is a promise that every transaction can still be committed. So it is refused when
    # one has ended already, or when one may time out before a next driver could commit it.
    gone: tuple[str, ...] = yield AreOpen(transactions)
    if gone:
        raise SinkError(
            f"sink {sink_id}: the transaction {gone[0]} ended before its batch was decided, so the "
            f"batch is given up: it took longer than {_bound(planned)}, or was aborted"
        )
    if now_ms - planned.planned_ms > planned.timeout_ms * DECIDED_WITHIN:
        raise SinkError(
            f"sink {sink_id}: the batch took {(now_ms - planned.planned_ms) // 1000} s, too close "
            f"to the {planned.timeout_ms // 1000} s of {_bound(planned)} to be decided safely: "
            "make batches smaller, or the timeout longer"
        )
    # This write is the commit point: from here on a crash is repaired by committing, not aborting.
    state = state.with_decision(written.batch, transactions)
    driver: Driver = yield Write(planned.driver, state)
    yield from _end_decided(sink_id, state)
    yield from _abort_left(sink_id, planned.generation)
    yield Write(driver, None if forgets else state.settled())
    return None


def give_up(planned: Plan) -> Steps:
    """After a batch that failed, perhaps in `commit`. Returns whether it was aborted."""
    # A decision of this driver may still be in flight. The write here has the same sequence number,
    # so the broker accepts only one of the two (KIP-98), and the second read shows which one.
    state: SinkState = yield Read()
    if _is_undecided(planned, state):
        yield Write(planned.driver, state)
        state = yield Read()
    if not _is_undecided(planned, state):
        return False
    yield from _abort_left(planned.sink_id, planned.generation)
    return True


def settle(sink_id: str) -> Steps:
    """Commit a decided batch and abort what is open and undecided, as `plan` would. The former
    driver is fenced by this. Returns whether a decision was pending."""
    driver: Driver = yield TakeOver()
    state: SinkState = yield Read()
    is_decided = state.phase is Phase.DECIDED
    if is_decided:
        yield from _end_decided(sink_id, state)
        yield Write(driver, state.settled())
    yield from _abort_left(sink_id, state.generation)
    return is_decided


def begin(sink_id: str) -> Steps:
    """Before a caller's first numbered batch: take the sink over and settle its decision. No
    decision of an earlier driver arrives afterwards. Returns `SinkState`. Raises SinkError."""
    driver: Driver = yield TakeOver()
    state: SinkState = yield Read()
    if state.phase is not Phase.DECIDED:
        return state
    yield from _end_decided(sink_id, state)
    state = state.settled()
    yield Write(driver, state)
    return state


def look() -> Steps:
    """Read the sink's record without taking the sink over. Returns `SinkState`."""
    state: SinkState = yield Read()
    return state


def decide(sink_id: str, batch: Batch, now_ms: int, timeout_ms: int = DECIDE_MS) -> Steps:
    """Decide a numbered batch without rows, unless it is decided already. Raises SinkError."""
    planned: Plan = yield from plan(sink_id, batch.query_id, now_ms, timeout_ms)
    if judge(sink_id, planned.decided, batch) is Verdict.WRITE:
        yield from commit(planned, Written(batch=batch), now_ms)
    return None


def forget(sink_id: str) -> Steps:
    """Drop the last decision, so that the next batch is written, whatever its number. Returns
    whether there was a record."""
    driver: Driver = yield TakeOver()
    state: SinkState = yield Read()
    if state.phase is Phase.NEW:
        return False
    yield Write(driver, state.forgotten())
    return True


def _is_undecided(planned: Plan, state: SinkState) -> bool:
    return state.generation == planned.generation and state.phase is Phase.PLANNED


def _abort_left(sink_id: str, generation: int) -> Steps:
    """Abort the open transactions of this generation and older ones: none belongs to a decision."""
    left = []
    for each in (yield FindOpen()):
        found = generation_of(sink_id, each)
        if found is not None and found <= generation:
            left.append(each)
    if left:
        yield Abort(tuple(left))


def _end_decided(sink_id: str, state: SinkState) -> Steps:
    lost: tuple[str, ...] = yield Commit(dict(state.transactions))
    if lost:
        assert state.decided is not None
        raise SinkError(
            f"sink {sink_id}: batch {state.decided.batch_id} was decided, but {len(lost)} of its "
            f"{len(state.transactions)} transactions ended without it ({lost[0]}): they were not "
            "committed within their timeout, or somebody aborted them. Their rows are not in the "
            f"topic. `josefine sinks forget {sink_id}` makes the query write the batch again, with "
            "duplicates of the rows that did arrive"
        )


def _bound(planned: Plan) -> str:
    """The setting that bounds how long transactions may stay open."""
    if planned.two_phase:
        return "the broker's transactions.two_phase_commit_timeout_max_ms"
    return "kafka.transaction.timeout.ms"


def _check_query(sink_id: str, state: SinkState, query_id: str) -> None:
    decided = state.decided
    if decided is not None and decided.query_id != query_id:
        batch = Batch(query_id=query_id, batch_id=0, fingerprint="")
        raise SinkError(_why_stopped(sink_id, Relation.OTHER, decided, batch))


def _why_stopped(sink_id: str, found: Relation, decided: Batch, batch: Batch) -> str:
    if batch.query_id == decided.query_id == NUMBERED:
        return _why_number(sink_id, found, decided, batch)
    why = {
        Relation.OTHER: f"it last committed batch {decided.batch_id} of query {decided.query_id}, "
        f"and this is query {batch.query_id}: was the checkpoint deleted?",
        Relation.OLDER: f"batch {decided.batch_id} is committed, and now batch {batch.batch_id} "
        "runs: the checkpoint is older than the topic",
        Relation.CHANGED: f"batch {decided.batch_id} is committed with other source offsets than "
        "it has now: the checkpoint is not the one it was",
    }[found]
    return (
        f"sink {sink_id}: {why}. Its rows may be in the topic already. Take another "
        f"sinkId, or run `josefine sinks forget {sink_id}` to write them anyway"
    )


def _why_number(sink_id: str, found: Relation, decided: Batch, batch: Batch) -> str:
    """`_why_stopped` for batches that their caller numbers."""
    if found is Relation.CHANGED:
        return (
            f"sink {sink_id}: batch {batch.batch_id} is committed with another batchFingerprint: "
            "its content has changed since"
        )
    return (
        f"sink {sink_id}: batchId {batch.batch_id} is lower than {decided.batch_id}, which is "
        "committed: batch numbers must grow"
    )
