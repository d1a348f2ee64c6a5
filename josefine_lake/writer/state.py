"""The state of one table's writer: what to do next, at which time, and which offsets a commit has.

The host reads records and writes files; this decides. Rules: a commit is due once the pending rows
fill a file, or once the oldest of them has waited for the target lag; it starts where the table's
chain ends (`offset_chain.decide`), so no offset is left out and none is there twice. Time is an
argument. Mutable: one value per table.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from josefine_broker.base.ids import TopicPartition
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer.start import Ready
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from pipelines.exactly_once.offset_chain import (
    Batch,
    Commit,
    Decision,
    Skip,
    Stop,
    Tip,
    Verdict,
    decide,
    decide_by_offset,
)

IDLE_WAIT_MS = 2_000
"""The longest wait of a fetch when nothing is pending: a broker wakes it at the first record."""
COMMIT_SHARE_MAX = 0.5
"""The part of the target lag that is left for the commit itself, at most."""
EARLY_SHARES = (0.05, 0.15)
"""The least and the largest part of the target lag by which a commit starts earlier: a record waits
for its read, too, and commits of several tables are spread, because their records often come at the
same moment, and all would be due at the same one."""


def early_share(topic: str) -> float:
    """The part of the target lag by which this table commits earlier."""
    least, largest = EARLY_SHARES
    return least + (largest - least) * (zlib.crc32(topic.encode()) % 1_000) / 1_000


class Phase(Enum):
    """What the writer of a table is doing."""

    IDLE = "everything that was read is committed"
    FILLING = "read records wait for their commit"
    COMMITTING = "a commit is under way"
    STOPPED = "a person has to decide"


TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    Phase.IDLE: frozenset({Phase.IDLE, Phase.FILLING, Phase.STOPPED}),
    Phase.FILLING: frozenset({Phase.FILLING, Phase.COMMITTING, Phase.STOPPED}),
    Phase.COMMITTING: frozenset({Phase.IDLE, Phase.STOPPED}),
    Phase.STOPPED: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Read from these offsets; wait at most so long for the first record."""

    positions: ByPartition
    wait_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Commit: the pending dead letters first, if there are any, then the pending rows.

    `dead`: the commit of the dead letters; rows below its `skip_below` are there already. None:
    their table has all of them."""

    commit: Commit
    dead: Commit | None


Step = Fetch | Write | Stop


class TableState:
    """The state of one table's writer, between its start and its stop."""

    def __init__(
        self, table: TableTopic, topic_id: str, ready: Ready, early_share: float = 0.0
    ) -> None:
        self._early_ms = table.target_lag_ms * early_share
        self.phase = Phase.IDLE
        self.tip = ready.tip
        self.dead = ready.dead
        self.positions: dict[TopicPartition, int] = dict(ready.positions)
        self._table = table
        self.topic_id = topic_id
        self._start: dict[TopicPartition, int] = dict(ready.positions)
        self._since_ms: int | None = None
        self._bytes = 0
        self._commit_ms = 0.0

    def next(self, now_ms: int, *, at_end: bool = False) -> Step:
        """The next step. `at_end`: there is nothing more to read, so nothing is waited for."""
        due_ms = self.due_ms()
        if due_ms is None:
            return Fetch(positions=dict(self.positions), wait_ms=IDLE_WAIT_MS)
        if at_end or now_ms >= due_ms or self._bytes >= self._table.target_file_bytes:
            return self._commit()
        wait_ms = min(IDLE_WAIT_MS, due_ms - now_ms)
        return Fetch(positions=dict(self.positions), wait_ms=wait_ms)

    def due_ms(self) -> int | None:
        """When the pending records have to be committed; None without any."""
        if self._since_ms is None:
            return None
        lag_ms = self._table.target_lag_ms
        # The commit takes time too: it starts that much earlier.
        early_ms = min(self._commit_ms + self._early_ms, lag_ms * COMMIT_SHARE_MAX)
        return self._since_ms + lag_ms - int(early_ms)

    @property
    def txn_version(self) -> int:
        """The number of the chain's newest commit; 0 without one."""
        return self.tip.txn_version if self.tip else 0

    def took(self, tp: TopicPartition, next_offset: int, bytes_: int, now_ms: int) -> None:
        """Records of a partition were read up to `next_offset` and wait in files; `bytes_`: the
        size of the open file now."""
        assert next_offset >= self.positions[tp], "a partition never goes back"
        self._bytes = bytes_
        if next_offset == self.positions[tp]:
            return
        self.positions[tp] = next_offset
        self._since_ms = now_ms if self._since_ms is None else self._since_ms
        self._move(Phase.FILLING)

    def added(self, tp: TopicPartition, first_offset: int) -> None:
        """A new partition of the topic."""
        if tp not in self.positions:
            self.positions[tp] = self._start[tp] = first_offset

    def committed(self, step: Write, took_ms: int) -> None:
        """The table has the pending rows."""
        commit = step.commit
        self.tip = Tip(reached=commit.end, txn_version=commit.txn_version)
        self._start = dict(self.positions)
        self._since_ms, self._bytes = None, 0
        # The slower of the last ones: one slow commit must not be forgotten at once.
        self._commit_ms = max(float(took_ms), self._commit_ms * 0.8)
        self._move(Phase.IDLE)

    def dead_committed(self, commit: Commit, *, wrote: bool) -> None:
        """The dead letters of the pending records are in their table; `wrote`: in a new commit.
        Without dead letters the chain advances in memory: the table's own commit records it."""
        version = commit.txn_version if wrote else commit.txn_version - 1
        self.dead = Tip(reached=commit.end, txn_version=version)

    def stop(self) -> None:
        """A person has to decide."""
        if self.phase is not Phase.STOPPED:
            self._move(Phase.STOPPED)

    def _commit(self) -> Step:
        batch = self._batch()
        decision: Decision = decide(batch, self.tip)
        if isinstance(decision, Stop):
            self._move(Phase.STOPPED)
            return decision
        # Every batch starts at the chain's end and goes beyond it, so the table cannot have it.
        assert not isinstance(decision, Skip), "a pending batch goes beyond the table's end"
        dead = decide_by_offset(batch, self.dead)
        if isinstance(dead, Stop):
            if dead.verdict is not Verdict.GAP:
                self._move(Phase.STOPPED)
                return dead
            # The dead letters start with a later offset: an earlier run had none, or another table.
            dead = decide_by_offset(batch, self._dead_from(batch))
            assert isinstance(dead, Commit)
        self._move(Phase.COMMITTING)
        return Write(commit=decision, dead=None if isinstance(dead, Skip) else dead)

    def _dead_from(self, batch: Batch) -> Tip | None:
        """The dead letters' chain without the partitions that this batch starts later."""
        if self.dead is None:
            return None
        reached = self.dead.reached
        ends = {p: end for p, end in reached.ends.items() if batch.starts.get(p, 0) <= end}
        offsets = TopicOffsets(ends=ends, topic_ids=reached.topic_ids)
        return Tip(reached=offsets, txn_version=self.dead.txn_version)

    def _batch(self) -> Batch:
        known = self.tip.reached.ends if self.tip else {}
        start = {p: at for p, at in self._start.items() if p in known}
        first = {p: at for p, at in self._start.items() if p not in known}
        end = TopicOffsets(
            ends=dict(self.positions), topic_ids={self._table.topic: self.topic_id}, first=first
        )
        return Batch(start=start, end=end)

    def _move(self, to: Phase) -> None:
        assert to in TRANSITIONS[self.phase], f"{self.phase.name} to {to.name}"
        self.phase = to
