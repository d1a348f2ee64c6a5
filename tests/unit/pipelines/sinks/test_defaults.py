"""What targets share: where lost ranges are recorded, no maintenance, no keys."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from josefine_broker.base.ids import TopicPartition
from pipelines.exactly_once.data_loss import LostRange
from pipelines.sinks import loss_table
from pipelines.sinks.defaults import AppendOnly
from pipelines.sinks.delta import OpenDelta
from pipelines.sinks.family.target import ManyTables, OpenFamily
from pipelines.sinks.iceberg.target import IcebergTarget, OpenIceberg
from pipelines.sinks.topic import OpenTopic, TopicTarget

OPEN: tuple[Any, ...] = (OpenDelta, OpenFamily, OpenIceberg, OpenTopic)


@pytest.mark.parametrize("kind", OPEN, ids=lambda kind: kind.__name__)
def test_lost_ranges_are_recorded_in_the_table_of_the_targets_own_run(kind, monkeypatch):
    recorded = []
    monkeypatch.setattr(loss_table, "record", lambda *given: recorded.append(given))
    opened, run = kind.__new__(kind), SimpleNamespace(losses="its table")
    object.__setattr__(opened, "run", run)
    lost = [LostRange(partition=TopicPartition("t", 0), topic_id="id", start=3, end=5)]

    opened.record_losses(lost)

    assert recorded == [(run, lost)]


@pytest.mark.parametrize("kind", OPEN[1:], ids=lambda kind: kind.__name__)
def test_only_a_delta_table_is_maintained_by_a_run(kind):
    assert kind.__new__(kind).keeper(lambda: False) is None


@pytest.mark.parametrize("kind", [ManyTables, IcebergTarget, TopicTarget])
def test_targets_whose_rows_are_only_added_have_no_keys(kind):
    assert issubclass(kind, AppendOnly)
    assert kind.__new__(kind).keys() == ()
