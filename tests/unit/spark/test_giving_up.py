"""What the driver of an exactly-once write does about the tasks of a batch that failed."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark.sql.datasource")

from josefine_spark import exactly_once
from josefine_spark.exactly_once import LOOKS_S, AttemptWritten, ExactlyOnceWriter
from josefine_spark.sink_steps import Driver, Plan

PLAN = Plan(
    sink_id="s",
    query_id="q",
    generation=1,
    driver=Driver(1, 0, 0),
    decided=None,
    planned_ms=0,
    timeout_ms=60_000,
)


class Store:
    """Says of each look whether the batch was given up."""

    def __init__(self, *given_up: bool) -> None:
        self.left = list(given_up)

    def run(self, steps: Any) -> bool:
        steps.close()
        return self.left.pop(0)


def pauses_of(monkeypatch: pytest.MonkeyPatch, store: Store) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(exactly_once.time, "sleep", pauses.append)
    writer = object.__new__(ExactlyOnceWriter)
    monkeypatch.setattr(writer, "_store", lambda sink_id: store)
    writer._abort([None, AttemptWritten(planned=PLAN)])
    return pauses


def test_it_looks_until_spark_has_ended_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(True, True, True)

    assert pauses_of(monkeypatch, store) == list(LOOKS_S)
    assert store.left == []
    assert sum(LOOKS_S) > 2  # seconds: spark.python.task.killTimeout


def test_what_is_decided_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(False, True, True)

    assert pauses_of(monkeypatch, store) == [0.0]
    assert store.left == [True, True]
