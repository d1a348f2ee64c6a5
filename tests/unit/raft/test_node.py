"""When a node wants to be woken, and what it reports about its followers."""

from random import Random

from raft.config import Config
from raft.ids import Height, NodeId
from raft.node import Node
from tests.unit.raft.test_node_among_others import ME, TIMEOUT_MS, One


def node_of(*voters: int) -> Node:
    config = Config(node_id=ME, initial_voters=tuple(map(NodeId, voters)), cluster_id="c")
    return Node(config, None, now_ms=0, rng=Random(1))


def test_a_voter_wakes_for_its_election_and_a_node_without_a_vote_for_nothing() -> None:
    due_ms = node_of(1, 2, 3).wake_at_ms()

    assert due_ms is not None
    assert TIMEOUT_MS <= due_ms < 2 * TIMEOUT_MS
    assert node_of(2, 3).wake_at_ms() is None


def test_a_deadline_of_a_proposal_wakes_a_node_before_its_election() -> None:
    node = node_of(1, 2, 3)

    node.propose(b"x", 0, deadline_ms=7)

    assert node.wake_at_ms() == 7


def test_a_leader_wakes_for_its_heartbeat_and_a_sole_voter_for_none() -> None:
    one = One()
    one.elect()
    now_ms = one.now_ms

    assert one.node.wake_at_ms() == now_ms
    one.at(now_ms)
    assert one.node.wake_at_ms() == now_ms + 100
    alone = node_of(1)
    alone.tick(0)
    assert alone.wake_at_ms() is None


def test_only_a_leader_knows_followers_and_what_they_have() -> None:
    one = One()
    assert one.node.followers() == {}
    head = one.elect()

    one.acknowledge(head)

    found = one.node.followers()
    assert {id_: each.match for id_, each in found.items()} == {2: None, 3: Height(1)}
    assert one.node.leader == ME
