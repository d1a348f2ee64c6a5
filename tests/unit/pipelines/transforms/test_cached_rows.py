"""Cached rows are released as they were cached, also after a failure."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines.transforms.cached_rows import keep, let_go
from tests.unit.pipelines.tiny_spark import Frame


class Rows(Frame):
    """A frame in a session of one process or of several; `held` are its blocks of rows."""

    def __init__(self, *, is_local, error=None):
        super().__init__([{"a": True}, {"a": False}, {"a": None}])
        sc = SimpleNamespace(isLocal=lambda: is_local)
        self.sparkSession = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: sc))
        self.held, self.error = [], error
        kind = SimpleNamespace(getSimpleName=lambda: "LogicalRDD" if is_local else "Project")
        rdd = SimpleNamespace(unpersist=lambda blocking: self.held.remove("rdd"))
        plan = SimpleNamespace(getClass=lambda: kind, rdd=lambda: rdd)
        execution = SimpleNamespace(analyzed=lambda: plan)
        self._jdf = SimpleNamespace(queryExecution=lambda: execution)

    def localCheckpoint(self, eager):  # noqa: N802
        assert not eager
        self.held.append("rdd")
        return self

    def persist(self):
        self.held.append("frame")
        return self

    def unpersist(self):
        self.held.remove("frame")

    def where(self, condition):
        if self.error:
            raise self.error
        return super().where(condition)


@pytest.mark.parametrize(("is_local", "held"), [(True, "rdd"), (False, "frame")])
def test_only_where_no_executor_can_be_lost_rows_are_cached_as_they_are(is_local, held):
    rows = Rows(is_local=is_local)

    kept, count = keep(rows, "a")

    assert (rows.held, count) == ([held], 1)
    let_go(kept)
    assert rows.held == []


@pytest.mark.parametrize("is_local", [True, False])
def test_nothing_stays_cached_after_a_failure(is_local):
    rows = Rows(is_local=is_local, error=KeyboardInterrupt())

    with pytest.raises(KeyboardInterrupt):
        keep(rows, "a")

    assert rows.held == []
