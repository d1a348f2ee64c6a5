"""The admin listener's contents: every metric of the table has a source."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

from josefine_broker.compose.admin import Observed, register_all
from josefine_broker.host.log.cleaner import CleanerStats, DirtCheck
from josefine_broker.host.metric_table import SECTIONS, Kind
from josefine_broker.host.metrics import Metrics
from tests.unit.josefine_broker.api.world import world_of


def test_every_metric_of_a_broker_is_registered() -> None:
    engine: Any = MagicMock()
    engine.broker.ctx = world_of().ctx
    parts: dict[str, Any] = {name: MagicMock() for name in Observed._fields}
    cleaner = parts["upkeep"].cleaner
    cleaner.stats, cleaner.check = CleanerStats(), DirtCheck()
    metrics = Metrics()
    register_all(metrics, Observed(**{**parts, "engine": engine}))
    always = {
        metric.name
        for section, rows in SECTIONS.items()
        for metric in rows
        # The others follow the configuration, each request's API, or the syncs.
        if " where " not in section and section != "Requests" and metric.kind is not Kind.HISTOGRAM
    }
    assert always <= set(metrics._read)
