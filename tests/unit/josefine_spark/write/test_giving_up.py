"""What the driver of an exactly-once write does about the tasks of a batch that failed, and how its
tasks take their ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.datasource")

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_spark.base.errors import SinkError
from josefine_spark.options.options import Connection, SinkOptions
from josefine_spark.write import exactly_once
from josefine_spark.write.exactly_once import LOOKS_S, AttemptWritten, ExactlyOnceWriter
from josefine_spark.write.protocol import Driver, Plan

PLAN = Plan(
    sink_id="s",
    query_id="q",
    generation=1,
    driver=Driver(1, 0, 0),
    decided=None,
    planned_ms=0,
    timeout_ms=60_000,
)


OPTIONS = SinkOptions(connection=Connection(bootstrap="b:1"), topic="t")


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


class Refusing:
    """A client whose broker gives nobody an id, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, bool]] = []

    def run(self, ask: Callable[[Any, int, int], Any], timeout_ms: int) -> Any:
        return ask(self, 0, 0)


@pytest.mark.parametrize("two_phase", [False, True])
def test_tasks_take_part_in_a_two_phase_commit_where_their_plan_says_so(
    monkeypatch: pytest.MonkeyPatch, two_phase: bool
) -> None:
    client = Refusing()

    def take(asked: Refusing, ids: Any, timeout_ms: int, t: int, d: int, *, two_phase: bool) -> Any:
        asked.asked.append((timeout_ms, two_phase))
        raise KafkaError(ErrorCode.producer_fenced, "no")

    monkeypatch.setattr(exactly_once, "client_for", lambda *args, **more: client)
    monkeypatch.setattr(exactly_once, "drop_client", lambda *args, **more: None)
    monkeypatch.setattr(exactly_once, "take_ids", take)
    task = SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: 0)
    monkeypatch.setattr(exactly_once, "_task_context", lambda: task)
    writer = object.__new__(ExactlyOnceWriter)
    writer._options = OPTIONS
    writer._plan = replace(PLAN, two_phase=two_phase, timeout_ms=10**9)

    with pytest.raises(SinkError, match="no"):
        writer.write(iter([SimpleNamespace(num_rows=1)]))

    assert client.asked == [(OPTIONS.transaction_timeout_ms, two_phase)]
