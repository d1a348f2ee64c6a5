"""A sink's handle: the query, its lock and its error, shared by the run and the query's thread.

A run stops a query between two micro-batches. It holds the lock for that; a micro-batch that starts
meanwhile is interrupted, and the next run replays it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipelines.model.plan import SinkPlan
from pipelines.report.events import BatchDone
from pipelines.run.batch_commit import commit_batch
from pipelines.run.prepared_sink import PreparedSink
from pipelines.transforms.stateful import LateRows


class InterruptedBatchError(Exception):
    """Raised in a batch that starts after the run was asked to stop; the next run replays it."""


class SinkHandle:
    """Mutable: the prepared sink, the query, whether it is to stop, the error of a micro-batch. The
    query's thread calls `process`."""

    def __init__(
        self,
        plan: SinkPlan,
        on_batch: Callable[[BatchDone], None],
        on_upkeep: Callable[[str, str], None],
        leave: Callable[[str], None],
    ) -> None:
        """`leave` is called with the sink's name when it stops reading rows that it shares."""
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
        """Whether maintenance must end early."""
        return self.stopping

    def process(self, frame: Any, batch_id: int) -> None:
        """One micro-batch, for foreachBatch. Keeps the error: Spark would only show its text."""
        # Apart from this thread only `stop_all` takes the lock.
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
        for wrong in keeper.after(tip.txn_version, round(done.seconds * 1000)):
            self._on_upkeep(self.plan.name, wrong)

    def late_rows(self) -> int:
        """Rows dropped as late (below the watermark) in micro-batches since the last call."""
        return self._late.of(self.query) if self.plan.stateful and self.query else 0

    def rests(self) -> None:
        """The query has ended: the other sinks of its source stop waiting for this one."""
        self._leave(self.plan.name)
