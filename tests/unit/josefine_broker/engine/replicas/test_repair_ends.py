"""A repair whose replica has damage past the end of its leader's log."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.partition.repair.repair import RETRY_MS_MAX
from tests.unit.josefine_broker.engine.replicas.test_repairing import LOG, VALUES, differing


def test_log_whose_damage_lies_past_the_end_of_its_leaders_log_is_cut_there() -> None:
    """Nobody would ever send what it lacks, and it stayed out of sync for as long as nothing more
    was produced (life 617 of decay between kills, with transactions)."""
    cluster = differing()
    hosted = cluster.hosted(2)
    hosted.served_by = 3, hosted.partition.leader_epoch

    cluster.repair(2)

    assert "a log was cut where it differs from its leader's" in cluster.messages()
    assert not cluster.damaged(2)
    cluster.run()
    assert cluster.values(2) == VALUES
    cluster.produce(3, b"x")
    cluster.run()
    assert cluster.values(2) == [*VALUES, b"x"]


@pytest.mark.parametrize("case", ["another epoch", "committed", "damaged there"])
def test_log_is_not_cut_where_its_leaders_log_is_not_known_to_end_before_it(case: str) -> None:
    """A leader that does not serve yet may still take its end from this replica; what was committed
    is cut by nobody; and a leader whose own batch is damaged there has more."""
    cluster = differing()
    hosted = cluster.hosted(2)
    hosted.served_by = 3, hosted.partition.leader_epoch
    if case == "another epoch":
        hosted.served_by = 3, LeaderEpoch(hosted.partition.leader_epoch - 1)
    elif case == "committed":
        hosted.partition.high_watermark = 6
    else:
        cluster.produce(3, b"x", acks=1)
        data = cluster.files[3].names[LOG].data
        data[len(data) - 1] ^= 1
        leaders: Any = cluster.hosted(3).log
        for segment in leaders._segments:
            segment.reads.forget()

    for _ in range(3):
        cluster.repair(2, after_ms=RETRY_MS_MAX)

    assert hosted.log.log_end_offset == 7
    assert cluster.damaged(2)
