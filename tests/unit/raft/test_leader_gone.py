"""A leader that is known to be gone is not waited for: when followers stand, to the millisecond."""

import pytest

from raft import Node, NodeId
from tests.simulation.raft.lab import Lab

TIMEOUT_MS = 300


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    for line in ("nodes 1 2 3", "lead 1", "beat 1 2"):
        lab.run(line)
    return lab


def node_of(lab: Lab, id_: int) -> Node:
    node = lab.machines[NodeId(id_)].node
    assert node is not None
    return node


def wait_ms(lab: Lab, id_: int) -> int:
    wake_ms = node_of(lab, id_).wake_at_ms()
    assert wake_ms is not None
    return wake_ms - lab.now_ms


def test_follower_stands_within_a_tenth_of_a_timeout(lab: Lab) -> None:
    assert wait_ms(lab, 2) >= TIMEOUT_MS

    lab.run("gone 2 1")

    assert wait_ms(lab, 2) < TIMEOUT_MS // 10


def test_being_told_again_postpones_nothing(lab: Lab) -> None:
    lab.run("gone 2 1")
    due_ms = node_of(lab, 2).wake_at_ms()

    for _ in range(20):
        lab.run("elapse 1")
        lab.run("gone 2 1")

    assert node_of(lab, 2).wake_at_ms() == due_ms


def test_who_is_refused_asks_again_before_a_timeout(lab: Lab) -> None:
    for line in ("gone 2 1", "tick 2", "deliver"):
        lab.run(line)

    assert TIMEOUT_MS // 4 <= wait_ms(lab, 2) < TIMEOUT_MS // 2


def test_leader_that_is_heard_after_all_is_trusted_as_before(lab: Lab) -> None:
    for line in ("gone 2 1", "beat 1 1"):
        lab.run(line)
    assert wait_ms(lab, 2) >= TIMEOUT_MS

    for line in ("cut 2", "tick 2"):
        lab.run(line)

    assert wait_ms(lab, 2) >= TIMEOUT_MS  # and its next round waits as any other


@pytest.mark.parametrize(("told", "peer"), [(2, 3), (1, 1), (1, 2)])
def test_only_a_followers_leader_matters(lab: Lab, told: int, peer: int) -> None:
    before_ms = node_of(lab, told).wake_at_ms()

    node_of(lab, told).peer_gone(NodeId(peer), lab.now_ms)

    assert node_of(lab, told).wake_at_ms() == before_ms


def test_two_who_learn_of_it_elect_one_of_them_in_less_than_a_timeout(lab: Lab) -> None:
    for line in ("crash 1", "gone 2 1", "gone 3 1"):
        lab.run(line)
    crashed_ms = lab.now_ms
    first = 2 if wait_ms(lab, 2) <= wait_ms(lab, 3) else 3

    said = lab.run(f"lead {first}")

    assert said[0].startswith(f"{first} is LEADER")
    assert lab.now_ms - crashed_ms < TIMEOUT_MS // 10
