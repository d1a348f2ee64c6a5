"""One sink of a run as its query and the run share it: the query, its lock, its error.

A run stops a sink between two batches: it holds the lock then, and a batch that comes meanwhile is
replayed by the next run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipelines.batch_commit import commit_batch
from pipelines.prepared_sink import PreparedSink
from pipelines.reporting import BatchDone
from pipelines.sink_plan import SinkPlan
from pipelines.stateful import LateRows


class InterruptedBatchError(Exception):
    """Raised inside a batch that began after the run was asked to stop: it is replayed later."""


class SinkHandle:
    """Mutable: the start that it has, its query, whether that is to stop, why a batch failed. The
    query's thread calls `process`."""

    def __init__(
        self,
        plan: SinkPlan,
        on_batch: Callable[[BatchDone], None],
        on_upkeep: Callable[[str, str], None],
        leave: Callable[[str], None],
    ) -> None:
        """`leave`: tells the other sinks of its source that this one reads no more."""
        self.plan = plan
        self.lock = threading.Lock()
        self.stopping = False
        self.error: Exception | None = None
        self.query: Any = None
        self.prepared: PreparedSink | None = None
        self._late = LateRows()
        self._on_batch = on_batch
        self._on_upkeep = on_upkeep
        self._leave = leave

    def is_stopping(self) -> bool:
        """For maintenance that is under way."""
        return self.stopping

    def process(self, frame: Any, batch_id: int) -> None:
        """One micro-batch, for foreachBatch. Keeps the error: Spark would only show its text."""
        # Only the one who stops the run ever holds the lock beside this thread.
        if self.stopping or not self.lock.acquire(blocking=False):
            raise InterruptedBatchError
        try:
            self._process(frame, batch_id)
        except Exception as error:
            self.error = error
            raise
        finally:
            self.lock.release()

    def _process(self, frame: Any, batch_id: int) -> None:
        prepared = self.prepared
        assert prepared is not None
        done = commit_batch(prepared, frame, batch_id)
        if self.plan.stateful:
            done = replace(done, late=self.late_rows())
        self._on_batch(done)
        tip, keeper = prepared.opened.chain.tip, prepared.keeper
        if keeper is None or done.already_there:
            return
        assert tip is not None
        for wrong in keeper.after(tip.txn_version):
            self._on_upkeep(self.plan.name, wrong)

    def late_rows(self) -> int:
        """What came behind the watermark in batches that ended since the last call."""
        return self._late.of(self.query) if self.plan.stateful and self.query else 0

    def rests(self) -> None:
        """Its query is not there any more: the other sinks await nothing of it."""
        self._leave(self.plan.name)
