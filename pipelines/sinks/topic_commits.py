"""Chained commits into one topic, with the interface of `DeltaChain`: rows and offsets in one.

Rules: a commit is believed only when the sink's record in the brokers shows it with our run's mark;
its number is the last one + 1, never Spark's batch id; a commit that another run wrote is a reason
to stop; what is decided is ended before anything else is done, by whoever finds it. With
`exactly_once` the decision is made by the write of the rows (`josefine_spark.write.exactly_once`),
else behind it. The record is named after pipeline, sink and topic, so a lost checkpoint loses
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from josefine_spark.write.protocol import (
    DECIDE_MS,
    TAKEN_OVER,
    Steps,
    begin,
    decide,
    look,
    plan,
    settle,
)
from josefine_spark.write.state import NUMBERED, Batch, Phase, SinkState
from pipelines.base import failpoints
from pipelines.exactly_once.offset_chain import Commit, HandedOn, Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import OtherChain
from pipelines.exactly_once.reconcile import Unreadable
from pipelines.model.retry_policy import ATTEMPTS_MAX, Retry, retry_of
from pipelines.model.topic import SinkTopic, sink_id
from pipelines.sinks.delta_commits import NO_BATCH, Link, StoppedError, hand_over, said_of
from pipelines.sinks.delta_log import LogEntry
from pipelines.sinks.topic_state import Target, batch_of, end_of, other_chains, said_by, taken_over

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Ledger(Protocol):
    """The sinks' records in the brokers (`topic_records.py`, or a model in a unit test)."""

    def run(self, sink: str, steps: Steps) -> Any:
        """Take a protocol's steps to their end; what they return. Raises RunError."""
        ...

    def all(self) -> Mapping[str, SinkState]:
        """Every sink's record, by its id. Raises RunError."""
        ...


Writer: TypeAlias = "Callable[[DataFrame, str, Batch], int]"
"""Writes rows as a batch of a sink id, in the topic's way of delivery; how many there were."""


class TopicChain:
    """One sink's chain in one topic. Mutable: the tip and the last number seen."""

    def __init__(
        self,
        target: SinkTopic,
        topic_id: str,
        link: Link,
        ledger: Ledger,
        write: Writer,
        on_retry: Callable[[int, Retry], None] = lambda batch_id, retry: None,
        pause: Callable[[float], None] = time.sleep,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.path = target.told
        self.link = link
        self.tip: Tip | None = None
        self.query_id = ""
        self._said = target
        self._target = Target(topic=target.topic, topic_id=topic_id)
        self._id = sink_id(link.pipeline, link.sink, target.topic)
        self._ledger = ledger
        self._write = write
        self._on_retry = on_retry
        self._pause = pause
        self._now_ms = now_ms
        self._version = 0

    def load(self) -> Tip | Unreadable | HandedOn | None:
        """Take the sink over, settle what an earlier run decided, find where it ended."""
        state: SinkState = self._ledger.run(self._id, begin(self._id))
        self._version = state.decided.batch_id if state.decided else 0
        found = end_of(state, self._target)
        if found is None or isinstance(found, HandedOn):
            states = self._ledger.all().values()
            found = taken_over(found, states, self.link.app_id, self._target) or found
        self.tip = found if isinstance(found, Tip) else None
        return found

    def is_there(self) -> bool:
        """A topic is there before its sink is."""
        return True

    def others(self) -> list[OtherChain]:
        """The chains of other names into this topic."""
        return other_chains(self._ledger.all().values(), self.link.name, self._target)

    def queries(self) -> set[str]:
        """Spark's id of the query behind the last commit."""
        said = said_by(self._look().decided)
        return {str(said.get("query", ""))} if said else set()

    def take_over(self, other: OtherChain) -> None:
        """Hand the other name's place on to this one: its own next commit says so, so that of a run
        under the old name and this one only one goes on. Raises StoppedError."""
        old = Link(pipeline=other.name.pipeline, sink=other.name.sink, run=self.link.run)
        chain = TopicChain(
            self._said, self._target.topic_id, old, self._ledger, self._write, self._on_retry
        )
        hand_over(chain, self.link.app_id)

    def follow(self, tip: Tip | None) -> None:
        """Continue from a tip that the start-up reconciliation settled on."""
        self.tip = tip

    def move(self, commit: Commit, **more: Any) -> None:
        """Commit offsets without rows; `more` is said beside them. Raises StoppedError."""
        batch = self._batch(commit, NO_BATCH, more)
        self._committed(lambda: self._decide(batch), commit, NO_BATCH)

    def append(
        self, frame: DataFrame, commit: Commit, batch_id: int, more: Mapping[str, Any] | None = None
    ) -> LogEntry:
        """Write rows; an empty frame still decides the offsets. `more` is said beside them."""
        batch = self._batch(commit, batch_id, more)

        def write() -> int:
            rows = self._write(failpoints.disturbed(frame), self._id, batch)
            return rows if self._said.exactly_once else rows + self._decide(batch)

        return self._committed(write, commit, batch_id)

    def half_write(self, frame: DataFrame) -> None:
        """What a crash leaves between the rows and the decision: a batch that is planned."""
        del frame
        steps = plan(self._id, NUMBERED, self._now_ms(), DECIDE_MS)
        self._ledger.run(self._id, steps)

    def _batch(self, commit: Commit, batch_id: int, more: Mapping[str, Any] | None) -> Batch:
        said = said_of(self.link, self.query_id, commit, batch_id, more)
        return batch_of(commit, said, self._target)

    def _decide(self, batch: Batch) -> int:
        """Without rows; returns how many."""
        self._ledger.run(self._id, decide(self._id, batch, self._now_ms()))
        return 0

    def _committed(self, write: Callable[[], int], commit: Commit, batch_id: int) -> LogEntry:
        """Run a write until the record shows it; raise StoppedError when another run's is there."""
        if self._number(self._look()) > self._version:
            raise StoppedError(Stop(verdict=Verdict.LOST_RACE))
        for attempt in range(1, ATTEMPTS_MAX + 1):
            rows, failure = 0, None
            try:
                rows = write()
            except Exception as error:
                failure = error
            state = self._look()
            said = self._mine(state, commit, batch_id)
            if said is not None:
                # Also after a failure: it may be decided although the answer was lost.
                if state.phase is Phase.DECIDED:
                    self._ledger.run(self._id, settle(self._id))
                self._version = commit.txn_version
                self.tip = Tip(reached=commit.end, txn_version=commit.txn_version)
                return _entry(commit, said, rows, self.link.app_id)
            lost = self._number(state) > self._version or TAKEN_OVER in str(failure)
            if lost or failure is None:
                raise StoppedError(Stop(verdict=Verdict.LOST_RACE)) from failure
            retry = retry_of(failure)
            if retry is None or attempt == ATTEMPTS_MAX:
                raise failure
            self._on_retry(batch_id, retry)
            self._pause(retry.pause_s * attempt)
        raise AssertionError("unreachable")

    def _look(self) -> SinkState:
        state: SinkState = self._ledger.run(self._id, look())
        return state

    def _number(self, state: SinkState) -> int:
        return state.decided.batch_id if state.decided else 0

    def _mine(self, state: SinkState, commit: Commit, batch_id: int) -> Mapping[str, Any] | None:
        """What the record says when its last decision is this commit of this run."""
        said = said_by(state.decided)
        if said is None or self._number(state) != commit.txn_version:
            return None
        is_mine = (said.get("run"), said.get("batch")) == (self.link.run, batch_id)
        return said if is_mine else None


def _entry(commit: Commit, said: Mapping[str, Any], rows: int, app_id: str) -> LogEntry:
    """As a Delta log's entry tells it."""
    return LogEntry(
        version=commit.txn_version,
        operation="WRITE",
        txn_version=commit.txn_version,
        txns={app_id: commit.txn_version},
        metadata=said,
        metrics={"numOutputRows": rows},
    )
