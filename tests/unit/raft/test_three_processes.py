"""Three members as real processes, on loopback and on disk: one leads, dies by kill -9, comes back.

The members are those of the bench (tests/bench/raft_process.py), which do what the manual says.
"""

from pathlib import Path

from tests.bench.raft_cluster import NODES, Cluster
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import wait_until

ELECTED_WITHIN_S = 5


def agree(cluster: Cluster) -> bool:
    """All see the same leader, term, chain and state machine; one leads, the others follow."""
    looks = [cluster.look(id_) for id_ in NODES]
    seen = {(each["term"], each["leader"], each["head"], each["digest"]) for each in looks}
    roles = sorted(each["role"] for each in looks)
    return len(seen) == 1 and roles == ["FOLLOWER", "FOLLOWER", "LEADER"]


def watching(cluster: Cluster) -> Stopwatch:
    """Since all that live run: how long a busy machine takes to start one is not Raft's time."""
    return Stopwatch(*(each.pid for each in cluster.processes.values() if each.poll() is None))


def test_one_leads_is_killed_and_comes_back_with_nothing_lost(tmp_path: Path) -> None:
    """Checklist rows 1, 2, 3, 6 and 10."""
    with Cluster(tmp_path, election_timeout_ms=400) as cluster:
        watch = watching(cluster)
        leader, _ = cluster.next("leads")
        assert watch.seconds < ELECTED_WITHIN_S
        wait_until(lambda: agree(cluster), 60, "all three see the same leader")
        cluster.say(leader, do="load", outstanding=10, seconds=0.3)
        _, done = cluster.next("load")
        assert done["proposals_per_s"] > 0
        before = cluster.look(leader)

        cluster.kill(leader)
        watch = watching(cluster)
        successor, _ = cluster.next("leads")
        assert watch.seconds < ELECTED_WITHIN_S
        after = cluster.look(successor)
        assert height(after["commit"]) > height(before["commit"]), (
            "all that was committed, and more"
        )
        cluster.say(successor, do="load", outstanding=10, seconds=0.3)
        cluster.next("load")

        cluster.start_again(leader)
        wait_until(lambda: agree(cluster), 60, "the old leader follows and has the same chain")
        assert cluster.look(leader)["role"] == "FOLLOWER"


def height(block_id: str) -> int:
    return int(block_id.partition(":")[2])
