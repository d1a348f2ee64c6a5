"""Chained commits into one topic, with the interface of `DeltaChain`: rows and offsets at once.

Rules: a commit counts only when the sink's record in the brokers shows it with this run's id. Its
number is the last one + 1, never Spark's batch id. A commit by another run is a reason to stop. A
decided batch is completed first by the next run that finds it. With `exactly_once` the write of the
rows makes the decision (`josefine_spark.write.exactly_once`); otherwise it follows the write. The
record is named after pipeline, sink and topic, so a lost checkpoint loses nothing.
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
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import Commit, HandedOn, Tip
from pipelines.exactly_once.other_chains import OtherChain
from pipelines.model.retry_policy import Retry
from pipelines.model.topic import SinkTopic, sink_id
from pipelines.sinks.commits import (
    NO_BATCH,
    Attempts,
    Link,
    hand_over,
    is_ours,
    lost_race,
    said_of,
)
from pipelines.sinks.delta_log import LogEntry, own_entry
from pipelines.sinks.topic_state import Target, batch_of, end_of, other_chains, said_by, taken_over

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Ledger(Protocol):
    """The sinks' records in the brokers (`topic_records.py`, or a model in a unit test)."""

    def run(self, sink: str, steps: Steps) -> Any:
        """Run a protocol's steps to their end; return their result. Raises RunError."""
        ...

    def all(self) -> Mapping[str, SinkState]:
        """Every sink's record, by its id. Raises RunError."""
        ...


Writer: TypeAlias = "Callable[[DataFrame, str, Batch], int]"
"""Writes rows as a batch of a sink id, by the topic's `delivery`; returns their number."""


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
        self._attempts = Attempts(on_retry, pause)
        self._now_ms = now_ms
        self._version = 0

    def load(self) -> Tip | Unreadable | HandedOn | None:
        """Fence earlier runs of the sink, complete their decided batch, find the chain's end."""
        state: SinkState = self._ledger.run(self._id, begin(self._id))
        self._version = state.decided.batch_id if state.decided else 0
        found = end_of(state, self._target)
        if found is None or isinstance(found, HandedOn):
            states = self._ledger.all().values()
            found = taken_over(found, states, self.link.app_id, self._target) or found
        self.tip = found if isinstance(found, Tip) else None
        return found

    def is_there(self) -> bool:
        """Always: `prepare` refuses a missing topic."""
        return True

    def others(self) -> list[OtherChain]:
        """The chains of other names into this topic."""
        return other_chains(self._ledger.all().values(), self.link.name, self._target)

    def queries(self) -> set[str]:
        """Spark's id of the query that made the last commit."""
        said = said_by(self._look().decided)
        return {str(said.get("query", ""))} if said else set()

    def take_over(self, other: OtherChain) -> None:
        """Continue the chain of another name: see `hand_over`. Raises StoppedError."""
        old = self.link.under(other.name)
        chain = TopicChain(
            self._said,
            self._target.topic_id,
            old,
            self._ledger,
            self._write,
            self._attempts.on_retry,
        )
        hand_over(chain, self.link.app_id)

    def follow(self, tip: Tip | None) -> None:
        """Continue from a tip that the start-up reconciliation settled on."""
        self.tip = tip

    def move(self, commit: Commit, **more: Any) -> None:
        """Commit offsets without rows; `more` is added to the metadata. Raises StoppedError."""
        batch = self._batch(commit, NO_BATCH, more)
        self._committed(lambda: self._decide(batch), commit, NO_BATCH)

    def append(
        self, frame: DataFrame, commit: Commit, batch_id: int, more: Mapping[str, Any] | None = None
    ) -> LogEntry:
        """Write rows; an empty frame still commits the offsets. `more`: added to the metadata."""
        batch = self._batch(commit, batch_id, more)

        def write() -> int:
            rows = self._write(failpoints.disturbed(frame), self._id, batch)
            return rows if self._said.exactly_once else rows + self._decide(batch)

        return self._committed(write, commit, batch_id)

    def half_write(self, frame: DataFrame) -> None:
        """For failpoints: a planned batch, as a crash between rows and decision leaves it."""
        del frame
        steps = plan(self._id, NUMBERED, self._now_ms(), DECIDE_MS)
        self._ledger.run(self._id, steps)

    def _batch(self, commit: Commit, batch_id: int, more: Mapping[str, Any] | None) -> Batch:
        said = said_of(self.link, self.query_id, commit, batch_id, more)
        return batch_of(commit, said, self._target)

    def _decide(self, batch: Batch) -> int:
        """Decide a batch without rows; returns their number, 0."""
        self._ledger.run(self._id, decide(self._id, batch, self._now_ms()))
        return 0

    def _committed(self, write: Callable[[], int], commit: Commit, batch_id: int) -> LogEntry:
        """Run a write until the record shows it; raise StoppedError if another run committed."""
        if self._number(self._look()) > self._version:
            raise lost_race()
        rows = 0

        def attempt() -> None:
            nonlocal rows
            rows = 0
            rows = write()

        def look(failure: Exception | None) -> LogEntry | None:
            state = self._look()
            number, said = self._number(state), said_by(state.decided)
            if said is not None and is_ours(
                said, number, self.link, (batch_id, commit.txn_version)
            ):
                if state.phase is Phase.DECIDED:
                    self._ledger.run(self._id, settle(self._id))
                self._version = commit.txn_version
                self.tip = Tip(reached=commit.end, txn_version=commit.txn_version, said=said)
                return own_entry(self.link.app_id, commit.txn_version, said, rows)
            if number > self._version or TAKEN_OVER in str(failure):
                raise lost_race() from failure
            return None

        return self._attempts.commit(batch_id, attempt, look)

    def _look(self) -> SinkState:
        state: SinkState = self._ledger.run(self._id, look())
        return state

    def _number(self, state: SinkState) -> int:
        return state.decided.batch_id if state.decided else 0
