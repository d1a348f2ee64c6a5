"""A repaired log takes its producers and leader epochs from its batches, and none from damage."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.engine.replicas.repair.repaired_log import replay_repaired
from tests.unit.josefine_broker.engine.replicas.repair.test_repairs import TP, Damaged


@pytest.mark.parametrize("is_whole", [True, False])
def test_log_counts_as_repaired_only_if_every_batch_is_intact(is_whole: bool) -> None:
    cluster = Damaged()
    hosted = cluster.hosted(2)
    epochs = list(hosted.partition.epochs.starts)
    hosted.partition.damaged()
    hosted.partition.epochs.clear()
    if not is_whole:
        cluster.spoil(2, 3)
    its_log: Any = hosted.log
    shown: Any = its_log.damage._shown[1]

    assert replay_repaired(cluster.ctx[2], TP, hosted, shown) is is_whole

    assert hosted.partition.awaits_repair is not is_whole
    assert list(hosted.partition.epochs.starts) == (epochs if is_whole else [])
