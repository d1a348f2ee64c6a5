"""Faults in any order, from a seed, under load: run by hand for as long as one likes.

JOSEFINE_FAULT_SECONDS=600 JOSEFINE_FAULT_SEED=7 pytest -m slow tests/integration/cluster
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.support.cluster import FAST_TIMINGS, REPLICATED, Cluster
from tests.support.waiting import wait_until
from tests.support.workload import Workload, check, read_back

PARTITIONS = 4
SECONDS = float(os.environ.get("JOSEFINE_FAULT_SECONDS", "60"))
SEED = int(os.environ.get("JOSEFINE_FAULT_SEED", "1"))


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 600)
def test_no_order_of_faults_loses_an_acknowledged_record(tmp_path: Path) -> None:
    """Checklist row 94."""
    rng = Random(SEED)
    print(f"seed {SEED}, {SECONDS:.0f} s")
    with Cluster(tmp_path, timings=FAST_TIMINGS, **REPLICATED) as cluster:
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("load", partitions=PARTITIONS)])
        with Workload(cluster.bootstrap, "load", partitions=PARTITIONS) as load:
            end_s = time.monotonic() + SECONDS
            while time.monotonic() < end_s:
                who = rng.choice(cluster.voters)
                what = rng.choice(("kill", "pause", "stop", "kill two"))
                print(f"{what} {who}", flush=True)
                _strike(cluster, rng, who, what)
                cluster.wait_settled()
                load.wait_acknowledged(rng.randrange(1, 200))
        assert load.account.failed == []
        check(load.account, read_back(cluster.bootstrap, "load", PARTITIONS))
        print(f"{load.account.count} records, longest gap {load.account.longest_gap_s():.2f} s")


def _strike(cluster: Cluster, rng: Random, who: int, what: str) -> None:
    until_s = time.monotonic() + rng.random() * 3
    if what == "pause":
        cluster.pause(who)
        wait_until(lambda: time.monotonic() > until_s, 10, "the pause's end")
        cluster.resume(who)
        return
    victims = [who]
    if what == "kill two":
        victims.append(rng.choice([each for each in cluster.voters if each != who]))
    for each in victims:
        (cluster.stop if what == "stop" else cluster.kill)(each)
    wait_until(lambda: time.monotonic() > until_s, 10, "the outage's end")
    cluster.spawn(*victims)
    cluster.wait_serving(*victims)
