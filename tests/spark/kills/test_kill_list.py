"""Who may die, at every arrow of sink-protocol.md, with three brokers and Spark's own processes:
each row once for a read_committed reader. Checklist row 88.

By hand, for a life takes minutes: `pytest -m slow tests/spark/kills`. No query ends by itself:
whoever dies, but the driver, it goes on.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cluster import REPLICATED, Cluster
from tests.support.kill_list import Copy, IntoDelta, IntoTopic, Job, Life, Victim
from tests.support.spark_cluster import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(2400)]

TASK = ("task:open", "task:opened", "task:half", "task:written")
PLAN = (*(f"plan:{n}" for n in range(5)), "planned")
COMMIT = (*(f"commit:{n}" for n in range(6)), "committed")
ARROWS = (*PLAN, "task:read", *TASK, *COMMIT)
AROUND = ("after_offsets", "before_commit", "after_commit_before_log")
POINTS = tuple(f"pipeline:{name}" for name in AROUND)
BATCH_TASK = tuple(each for each in TASK if each != "task:half")
INTO_TOPIC = (*POINTS[:2], *PLAN, "task:read", *BATCH_TASK, *COMMIT, POINTS[2])
INTO_DELTA = (POINTS[0], "task:read", *POINTS[1:])

BROKERS = (Victim.LEADER, Victim.COORDINATOR, Victim.RECORD)
NEEDS_A_BATCH = {Victim.RECORD, Victim.GROUP}
"""What they lead is made by the first batch; the others meet that one, too."""
LIVES: list[tuple[type[Job], Victim, tuple[str, ...]]] = [
    *((Copy, victim, ARROWS) for victim in (Victim.EXECUTOR, *BROKERS, Victim.DRIVER)),
    (Copy, Victim.WORKER, ("task:read", *TASK)),
    *((IntoTopic, victim, INTO_TOPIC) for victim in (Victim.EXECUTOR, *BROKERS, Victim.DRIVER)),
    (IntoTopic, Victim.WORKER, ("task:read", *BATCH_TASK)),
    *((IntoDelta, victim, INTO_DELTA) for victim in (Victim.EXECUTOR, Victim.DRIVER)),
    *((IntoDelta, victim, INTO_DELTA) for victim in (Victim.SOURCE, Victim.GROUP)),
    (IntoDelta, Victim.WORKER, ("task:read",)),
]


@pytest.mark.parametrize(
    ("job", "victim", "arrows"),
    [pytest.param(*life, id=f"{life[0].__name__}-{life[1].name}") for life in LIVES],
)
def test_each_row_is_there_once_whoever_is_killed_at_whichever_arrow(
    tmp_path: Path, job: type[Job], victim: Victim, arrows: tuple[str, ...]
) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(tmp_path / "brokers", **REPLICATED))
        spark = None
        if victim is Victim.EXECUTOR:
            spark = stack.enter_context(SparkCluster(tmp_path / "spark"))
        (tmp_path / "job").mkdir()
        life = stack.enter_context(Life(cluster, tmp_path / "job", job(), spark))
        if victim in NEEDS_A_BATCH:
            life.begin()
        for arrow in arrows:
            life.passes(arrow, victim)

    assert life.ended == []
