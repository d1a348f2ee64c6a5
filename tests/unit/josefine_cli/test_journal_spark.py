"""The session of `journal replicate --spark` is stopped by who has started it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from josefine_cli.journal.spark import session

SPARK = object()


@pytest.mark.parametrize("running", [None, SPARK], ids=["none", "another thread's"])
def test_only_a_session_that_was_started_here_is_stopped(
    monkeypatch: pytest.MonkeyPatch, running: object
) -> None:
    stopped = []

    @contextmanager
    def stopping(spark: object) -> Iterator[None]:
        yield
        stopped.append(spark)

    monkeypatch.setattr("josefine_cli.journal.spark.need", lambda *_: None)
    monkeypatch.setattr("josefine_spark.sessions.session.running_session", lambda: running)
    monkeypatch.setattr("pipelines.run.session.start_named", lambda *_: SPARK)
    monkeypatch.setattr("pipelines.spark.jvm.stopping", stopping)

    with session({}) as found:
        assert found is SPARK
        assert stopped == []

    assert stopped == ([] if running else [SPARK])
