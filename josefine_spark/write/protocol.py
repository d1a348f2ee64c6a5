"""The exactly-once sink's protocol, step by step, without I/O (sink-protocol.md).

`plan`, `commit` and `give_up` are generators: each yields a step and is resumed with its result, so
that tests can end or hold a driver between any two of them. `sink_store` takes the steps for real.

Rules:
- nothing is aborted before this driver's generation is written, and nothing of that or a newer one;
- a decision is written as the producer of the sink's own transactional id: a driver that was fenced
  writes none;
- what is decided is committed, again and again, until every transaction is; nothing else is planned
  before;
- what is open and not decided is aborted behind every decision, and by who gives a batch up: that
  one makes sure first that no decision is there, nor on its way.
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
"""Of the transactions' timeout: what is left is for ending them, also by the next driver."""


DECIDE_MS = 60_000
"""In place of the transactions' timeout, where there are none."""
TAKEN_OVER = "another run has taken it over"
"""In the text of who tells so."""


class Driver(NamedTuple):
    """Who writes the sink's record, and the number of its next write: of two writes with one number
    the first that arrives counts, and the other one is as good as done (KIP-98)."""

    producer_id: int
    epoch: int
    sequence: int
    open_ms: int = 0
    """How long the broker leaves transactions of a two-phase participant open (KIP-939); 0: they
    have the timeout that they ask for."""


class TakeOver(NamedTuple):
    """Become the sink's driver. Result: `Driver`. Nothing that one before it wrote arrives any
    more."""


class Read(NamedTuple):
    """Result: the `SinkState` that has arrived last."""


class Write(NamedTuple):
    """Make it the sink's record, durably and only as this driver; None: it is forgotten. Result:
    the `Driver` for the next write. Raises SinkError: another one has taken over, or it is not
    known whether it arrives."""

    driver: Driver
    state: SinkState | None


class FindOpen(NamedTuple):
    """Result: transactional ids (str) with an open transaction, whosever they are."""


class Abort(NamedTuple):
    """End the transactions of these ids and fence their producers."""

    ids: tuple[str, ...]


class AreOpen(NamedTuple):
    """Result: those of these ids (tuple of str) whose transaction is not open as this producer's
    any more."""

    transactions: Mapping[str, ProducerIdentity]


class Commit(NamedTuple):
    """End these transactions, as often as it takes. Result: those (tuple of str) that had been
    ended otherwise."""

    transactions: Mapping[str, ProducerIdentity]


Step: TypeAlias = TakeOver | Read | Write | FindOpen | Abort | AreOpen | Commit
Steps: TypeAlias = Generator[Step, Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a driver planned; travels to the tasks and back."""

    sink_id: str
    query_id: str
    generation: int
    driver: Driver
    decided: Batch | None
    planned_ms: int
    """By the clock of the driver's machine,"""
    timeout_ms: int
    """and how long after that transactions may be open."""
    two_phase: bool = False
    """By the broker's bound: the tasks' transactions are those of participants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the tasks of a batch wrote."""

    batch: Batch
    transactions: Mapping[str, ProducerIdentity] = field(default_factory=dict)


def judge(sink_id: str, decided: Batch | None, batch: Batch) -> Verdict:
    """Whether a batch is to be written. Raises SinkError where nobody can know."""
    found = relation(decided, batch)
    if VERDICTS[found] is Verdict.STOP:
        assert decided is not None
        raise SinkError(_why_stopped(sink_id, found, decided, batch))
    return VERDICTS[found]


def plan(sink_id: str, query_id: str, planned_ms: int, timeout_ms: int) -> Steps:
    """Before a batch: settle what is decided, abort what is left over. Returns `Plan`."""
    state: SinkState = yield Read()
    _check_query(sink_id, state, query_id)
    driver: Driver = yield TakeOver()
    state = yield Read()
    _check_query(sink_id, state, query_id)
    if state.phase is Phase.DECIDED:
        yield from _end_decided(sink_id, state)
        state = state.settled()
    before = state.generation
    state = state.planned()
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
    """Decide the batch, end its transactions. `forgets`: nobody will use this sink again. Raises
    SinkError."""
    sink_id, transactions = planned.sink_id, written.transactions
    state: SinkState = yield Read()
    if state.generation != planned.generation:
        raise SinkError(f"sink {sink_id}: {TAKEN_OVER}; nothing was committed")
    gone: tuple[str, ...] = yield AreOpen(transactions)
    if gone:
        raise SinkError(
            f"sink {sink_id}: the transaction {gone[0]} ended before its batch was decided, so the "
            f"batch is given up: it took longer than {_bound(planned)}, or was aborted"
        )
    if now_ms - planned.planned_ms > planned.timeout_ms * DECIDED_WITHIN:
        raise SinkError(
            f"sink {sink_id}: the batch took {(now_ms - planned.planned_ms) // 1000} s, too near "
            f"to the {planned.timeout_ms // 1000} s of {_bound(planned)} to be decided safely: "
            "make batches smaller, or the timeout longer"
        )
    state = state.with_decision(written.batch, transactions)
    driver: Driver = yield Write(planned.driver, state)
    yield from _end_decided(sink_id, state)
    yield from _abort_left(sink_id, planned.generation)
    yield Write(driver, None if forgets else state.settled())
    return None


def give_up(planned: Plan) -> Steps:
    """After a batch that failed, perhaps in `commit`. Returns whether it was aborted. A decision
    may be on its way yet: what is written here has its number, so only one of the two counts."""
    state: SinkState = yield Read()
    if _is_undecided(planned, state):
        yield Write(planned.driver, state)
        state = yield Read()
    if not _is_undecided(planned, state):
        return False
    yield from _abort_left(planned.sink_id, planned.generation)
    return True


def settle(sink_id: str) -> Steps:
    """End what is decided and not ended, and abort what is open and not decided, as `plan` would:
    who was the driver decides nothing any more. Returns whether anything was decided."""
    driver: Driver = yield TakeOver()
    state: SinkState = yield Read()
    is_decided = state.phase is Phase.DECIDED
    if is_decided:
        yield from _end_decided(sink_id, state)
        yield Write(driver, state.settled())
    yield from _abort_left(sink_id, state.generation)
    return is_decided


def begin(sink_id: str) -> Steps:
    """Before a caller's first numbered batch: take the sink over, settle what is decided. Nothing
    that one before it decides arrives any more. Returns `SinkState`. Raises SinkError."""
    driver: Driver = yield TakeOver()
    state: SinkState = yield Read()
    if state.phase is not Phase.DECIDED:
        return state
    yield from _end_decided(sink_id, state)
    state = state.settled()
    yield Write(driver, state)
    return state


def look() -> Steps:
    """What is decided, whoever goes on. Returns `SinkState`."""
    state: SinkState = yield Read()
    return state


def decide(sink_id: str, batch: Batch, now_ms: int, timeout_ms: int = DECIDE_MS) -> Steps:
    """A numbered batch without rows of its own, unless it is decided already. Raises SinkError."""
    planned: Plan = yield from plan(sink_id, batch.query_id, now_ms, timeout_ms)
    if judge(sink_id, planned.decided, batch) is Verdict.WRITE:
        yield from commit(planned, Written(batch=batch), now_ms)
    return None


def forget(sink_id: str) -> Steps:
    """Nothing is decided any more: the batch that comes next is written, whichever it is. Returns
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
    """What attempts of this generation, or before, left open: none of it is decided any more."""
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
            f"topic. `josefine sinks forget {sink_id}` has the batch written again, with "
            "duplicates of what did arrive"
        )


def _bound(planned: Plan) -> str:
    """What says how long transactions may be open."""
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
    told = {
        Relation.OTHER: f"it last committed batch {decided.batch_id} of query {decided.query_id}, "
        f"and this is query {batch.query_id}: was the checkpoint deleted?",
        Relation.OLDER: f"batch {decided.batch_id} is committed, and now batch {batch.batch_id} "
        "runs: the checkpoint is older than the topic",
        Relation.CHANGED: f"batch {decided.batch_id} is committed with other source offsets than "
        "it has now: the checkpoint is not the one it was",
    }[found]
    return (
        f"sink {sink_id}: {told}. What it would write may be in the topic already. Take another "
        f"sinkId, or `josefine sinks forget {sink_id}` to write it all the same"
    )


def _why_number(sink_id: str, found: Relation, decided: Batch, batch: Batch) -> str:
    """Of batches that their caller numbers."""
    if found is Relation.CHANGED:
        return (
            f"sink {sink_id}: batch {batch.batch_id} is committed, with another batchFingerprint: "
            "it is not the batch that it was"
        )
    return (
        f"sink {sink_id}: batchId {batch.batch_id} comes behind {decided.batch_id}, which is "
        "committed: numbers only grow"
    )
