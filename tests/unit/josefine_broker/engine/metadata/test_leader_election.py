"""ElectLeaders: who may be asked, what is elected, and what the answer says of each partition."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.metadata.changes import CreateTopic, Decision, PartitionState
from josefine_broker.engine.metadata.image import NO_LEADER, PartitionEntry
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire.entities import elect_leaders as e
from tests.unit.josefine_broker.api.world import TERM, World

PREFERRED, UNCLEAN = 0, 1


def topic_world(replicas: tuple[tuple[int, ...], ...] = ((1, 2),), **config: str) -> World:
    """A topic over three brokers, seen by the controller."""
    world = World(brokers=3)
    world.ctx.cluster.controller_term = TERM
    world.propose(
        CreateTopic(
            name="orders",
            topic_id=world.topic_id(),
            replicas=replicas,
            config=tuple((key.replace("_", "."), value) for key, value in config.items()),
        )
    )
    return world


def change(world: World, index: int = 0, **fields: Any) -> None:
    """As the controller, or the partition's leader, might have left it."""
    topic = world.ctx.image.topics["orders"]
    old = topic.partitions[index]
    state = PartitionState.of(topic.topic_id, index, old, old)._replace(**fields)
    if state.leader != old.leader:
        state = state._replace(leader_epoch=old.leader_epoch + 1)
    world.propose(Decision(controller_term=TERM, reason="test", partitions=(state,)))


def entry(world: World, index: int = 0) -> PartitionEntry:
    return world.ctx.image.topics["orders"].partitions[index]


def elect(
    world: World, *indexes: int, election: int = PREFERRED, every: bool = False, **fields: Any
) -> Any:
    named = None if every else (e.TopicPartitions(topic="orders", partitions=indexes or (0,)),)
    request = e.ElectLeadersRequest(election_type=election, topic_partitions=named, **fields)
    return world.ask(43, request)


def codes(answer: e.ElectLeadersResponse) -> dict[int, ErrorCode]:
    return {
        each.partition_id: each.error_code
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


def test_preferred_replica_leads_again() -> None:
    """Checklist row 37."""
    world = topic_world()
    change(world, leader=2)
    epoch = entry(world).leader_epoch

    answer = elect(world)

    assert codes(answer) == {0: ErrorCode.none}
    assert (entry(world).leader, entry(world).leader_epoch) == (1, epoch + 1)
    assert entry(world).isr == (1, 2)


def test_preferred_replica_that_leads_needs_no_election() -> None:
    world = topic_world()
    before = len(world.raft.committed)

    assert codes(elect(world)) == {0: ErrorCode.election_not_needed}
    assert len(world.raft.committed) == before


@pytest.mark.parametrize("reason", ["fenced", "out of sync"])
def test_preferred_replica_that_cannot_lead_is_not_elected(reason: str) -> None:
    world = topic_world(((2, 1),))
    change(world, leader=1, isr=(1,) if reason == "out of sync" else (1, 2))
    if reason == "fenced":
        world.fence(2)

    answer = elect(world)

    assert codes(answer) == {0: ErrorCode.preferred_leader_not_available}
    assert entry(world).leader == 1
    (result,) = answer.replica_election_results[0].partition_result
    assert result.error_message == "the preferred replica, broker 2, is not live or not in sync"


def test_unclean_election_takes_a_replica_out_of_sync_where_nobody_leads() -> None:
    world = topic_world(((3, 2, 1),))
    change(world, leader=NO_LEADER, isr=(3,))
    world.fence(3)

    answer = elect(world, election=UNCLEAN)

    assert codes(answer) == {0: ErrorCode.none}
    assert (entry(world).leader, entry(world).isr) == (2, (2,))


def test_unclean_election_prefers_who_has_every_record() -> None:
    world = topic_world(((3, 2, 1),))
    change(world, leader=NO_LEADER, isr=(3, 1))
    world.fence(3)

    elect(world, election=UNCLEAN)

    assert (entry(world).leader, entry(world).isr) == (1, (1,))


def test_unclean_election_of_a_led_partition_is_not_needed() -> None:
    world = topic_world()

    assert codes(elect(world, election=UNCLEAN)) == {0: ErrorCode.election_not_needed}


def test_unclean_election_needs_one_live_replica() -> None:
    world = topic_world(((3,),))
    change(world, leader=NO_LEADER)
    world.fence(3)

    answer = elect(world, election=UNCLEAN)

    assert codes(answer) == {0: ErrorCode.eligible_leaders_not_available}


def test_partition_that_does_not_exist_is_unknown_alone() -> None:
    world = topic_world()
    change(world, leader=2)

    answer = elect(world, 0, 7, -1)

    unknown = ErrorCode.unknown_topic_or_partition
    assert codes(answer) == {0: ErrorCode.none, 7: unknown, -1: unknown}
    nope = e.ElectLeadersRequest(
        topic_partitions=(e.TopicPartitions(topic="nope", partitions=(0,)),)
    )
    assert codes(world.ask(43, nope)) == {0: unknown}


def test_all_partitions_means_those_that_need_an_election() -> None:
    world = topic_world(((1, 2), (2, 1), (1, 2)))
    change(world, 2, leader=2)
    before = len(world.raft.committed)

    answer = elect(world, every=True)

    assert codes(answer) == {2: ErrorCode.none}
    assert [p.leader for p in world.ctx.image.topics["orders"].partitions] == [1, 2, 1]
    assert len(world.raft.committed) == before + 1, "one decision for all of them"
    assert codes(elect(world, every=True)) == {}


def test_many_elections_are_cut_into_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("josefine_broker.api.elect_leaders.DECISION_PARTITIONS_MAX", 2)
    world = topic_world(((1, 2),) * 5)
    for index in range(5):
        change(world, index, leader=2)
    before = len(world.raft.committed)

    answer = elect(world, every=True)

    assert set(codes(answer).values()) == {ErrorCode.none}
    assert len(world.raft.committed) == before + 3


def test_other_brokers_name_the_controller() -> None:
    """A client asks again where Metadata says the controller is."""
    world = topic_world()
    world.ctx.cluster.controller_term = None
    world.ctx.cluster.controller_id = 2
    before = len(world.raft.committed)

    answer = elect(world)

    assert answer.error_code == ErrorCode.not_controller
    assert codes(answer) == {0: ErrorCode.not_controller}
    assert len(world.raft.committed) == before


def test_election_without_a_controller_says_why_there_is_none() -> None:
    world = topic_world()
    world.ctx.cluster.controller_term, world.ctx.cluster.controller_id = None, -1
    world.ctx.ports.why_no_controller = lambda: "no controller: as it happens"

    ((told,),) = (each.partition_result for each in elect(world).replica_election_results)

    assert told.error_message == "no controller: as it happens"


def test_controller_of_an_older_term_is_told_so() -> None:
    """Checklist row 15: it did not know yet that another one was elected."""
    world = topic_world()
    change(world, leader=2)
    world.ctx.cluster.controller_term = TERM - 1

    answer = elect(world)

    assert answer.error_code == ErrorCode.not_controller
    assert entry(world).leader == 2


def test_partition_that_changed_before_the_block_keeps_what_it_has() -> None:
    world = topic_world()
    change(world, leader=2)
    world.raft.at_once = False
    waiting = elect(world)
    assert isinstance(waiting, Parked)
    election = world.raft.waiting.pop()
    world.raft.at_once = True
    change(world, isr=(2,))

    world.raft.waiting.append(election)
    world.raft.deliver()

    response: Any = waiting.response
    assert codes(response) == {0: ErrorCode.leader_not_available}
    assert (entry(world).leader, entry(world).isr) == (2, (2,))


def test_election_that_is_not_committed_in_time_is_a_timeout() -> None:
    world = topic_world()
    change(world, leader=2)
    world.raft.at_once = False

    waiting = elect(world, timeout_ms=100)
    world.advance(100)

    assert codes(waiting.response) == {0: ErrorCode.request_timed_out}


def test_unknown_kind_of_election_is_refused() -> None:
    assert elect(topic_world(), election=7).error_code == ErrorCode.invalid_request


def test_elected_by_min_insync_replicas_of_the_topic() -> None:
    """An unclean election of the last member keeps the others eligible (KIP-966)."""
    world = topic_world(((3, 2, 1),), min_insync_replicas="2")
    change(world, leader=NO_LEADER, isr=(3, 2))
    world.fence(3)

    elect(world, election=UNCLEAN)

    assert (entry(world).leader, entry(world).isr, entry(world).elr) == (2, (2,), (3,))
