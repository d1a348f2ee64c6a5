"""Reassignments and elections: an answer per partition, and the controller found when it moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import operations, replicas
from josefine_broker.client.effects import CONTROLLER, Call
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.client.driver import Driver, unreachable

T0, T1 = (TopicPartition("t", index) for index in range(2))


def metadata(controller: int) -> e.metadata.MetadataResponse:
    brokers = tuple(
        e.metadata.MetadataResponseBroker(node_id=each, host=f"b{each}", port=1) for each in (1, 2)
    )
    return e.metadata.MetadataResponse(brokers=brokers, controller_id=controller, topics=())


def elected(code: ErrorCode = ErrorCode.none) -> e.elect_leaders.ElectLeadersResponse:
    return e.elect_leaders.ElectLeadersResponse(
        error_code=code,
        replica_election_results=(
            e.elect_leaders.ReplicaElectionResult(
                topic="t",
                partition_result=(
                    e.elect_leaders.PartitionResult(partition_id=0),
                    e.elect_leaders.PartitionResult(
                        partition_id=1, error_code=ErrorCode.preferred_leader_not_available
                    ),
                ),
            ),
        ),
    )


def test_an_election_is_asked_of_the_controller_that_newer_metadata_names() -> None:
    answers = iter((metadata(1), elected(ErrorCode.not_controller), metadata(2), elected()))
    driver = Driver(lambda call: next(answers))

    outcome = driver.run(
        lambda t, d: replicas.elect_leaders(driver.session, replicas.PREFERRED, (T0, T1), t, d)
    )

    assert [key for key, _ in driver.asked] == [apis.METADATA, apis.ELECT_LEADERS] * 2
    assert outcome[T0] is None
    refused = outcome[T1]
    assert refused is not None
    assert refused.code is ErrorCode.preferred_leader_not_available


def test_an_election_is_asked_for_again_where_the_partition_changed_meanwhile() -> None:
    def answer_of(first: ErrorCode, second: ErrorCode) -> e.elect_leaders.ElectLeadersResponse:
        parts = tuple(
            e.elect_leaders.PartitionResult(partition_id=index, error_code=code)
            for index, code in enumerate((first, second))
        )
        result = e.elect_leaders.ReplicaElectionResult(topic="t", partition_result=parts)
        return e.elect_leaders.ElectLeadersResponse(replica_election_results=(result,))

    changed, needless = ErrorCode.leader_not_available, ErrorCode.election_not_needed
    answers = iter(
        (
            metadata(1),
            answer_of(ErrorCode.none, changed),
            metadata(1),
            answer_of(needless, ErrorCode.none),
        )
    )
    driver = Driver(lambda call: next(answers))

    outcome = driver.run(
        lambda t, d: replicas.elect_leaders(driver.session, replicas.PREFERRED, (T0, T1), t, d)
    )

    assert outcome == {T0: None, T1: None}


def test_an_election_without_a_controller_says_what_the_broker_says() -> None:
    why = "no controller: 1 of the voters 1, 2, 3 is there"
    part = e.elect_leaders.PartitionResult(
        partition_id=0, error_code=ErrorCode.not_controller, error_message=why
    )
    refused = e.elect_leaders.ElectLeadersResponse(
        error_code=ErrorCode.not_controller,
        replica_election_results=(
            e.elect_leaders.ReplicaElectionResult(topic="t", partition_result=(part,)),
        ),
    )
    driver = Driver(lambda call: metadata(-1) if call.api_key == apis.METADATA else refused)

    with pytest.raises(KafkaError, match=why):
        driver.run(
            lambda t, d: replicas.elect_leaders(driver.session, replicas.PREFERRED, (T0,), t, d)
        )


def test_a_controller_that_is_gone_is_not_the_only_one_asked() -> None:
    asked: list[tuple[str, ...]] = []

    def answer(call: Call) -> Any:
        if call.api_key == apis.METADATA:
            return metadata(2)
        asked.append(tuple(each.host for each in driver.session.candidates(call.node)))
        if len(asked) == 1:
            return unreachable()
        return e.list_partition_reassignments.ListPartitionReassignmentsResponse(topics=())

    driver = Driver(answer)
    driver.run(lambda t, d: operations.metadata(driver.session, (), t, d))

    driver.run(lambda t, d: replicas.list_reassignments(driver.session, t, d))

    assert asked == [("b2",), ("b1", "b2", "boot")]


def test_a_reassignment_is_answered_partition_by_partition() -> None:
    entities = e.alter_partition_reassignments

    def answer(call: Call) -> Any:
        (topic,) = call.request.topics
        assert [each.replicas for each in topic.partitions] == [(2, 1), None]
        refused = ErrorCode.no_reassignment_in_progress
        return entities.AlterPartitionReassignmentsResponse(
            responses=(
                entities.ReassignableTopicResponse(
                    name="t",
                    partitions=(
                        entities.ReassignablePartitionResponse(partition_index=0),
                        entities.ReassignablePartitionResponse(
                            partition_index=1, error_code=refused, error_message="it stands still"
                        ),
                    ),
                ),
            )
        )

    driver = Driver(answer)
    outcome = driver.run(
        lambda t, d: replicas.reassign(driver.session, {T0: (2, 1), T1: None}, t, d)
    )

    assert outcome[T0] is None
    assert str(outcome[T1]).endswith("partition t-1: it stands still")


def vote_removed(code: ErrorCode = ErrorCode.none) -> e.remove_raft_voter.RemoveRaftVoterResponse:
    return e.remove_raft_voter.RemoveRaftVoterResponse(error_code=code, error_message=code.name)


def remove_voter(*answers: Any) -> Driver:
    """Metadata names broker 1; each question about the voter gets the next of `answers`."""
    waiting = iter(answers)
    driver = Driver(lambda call: metadata(1) if call.api_key == apis.METADATA else next(waiting))
    driver.run(lambda t, d: replicas.remove_voter(driver.session, 3, t, d))
    return driver


def test_vote_is_gone_when_the_voter_is_not_found_any_more() -> None:
    gone = vote_removed(ErrorCode.voter_not_found)
    busy = vote_removed(ErrorCode.request_timed_out)

    driver = remove_voter(busy, vote_removed(), vote_removed(), gone)

    assert [key for key, _ in driver.asked].count(apis.REMOVE_RAFT_VOTER) == 4


def test_who_never_voted_has_no_vote_to_lose() -> None:
    with pytest.raises(KafkaError, match="voter_not_found"):
        remove_voter(vote_removed(ErrorCode.voter_not_found))


def test_a_move_that_ends_while_the_placement_is_asked_for_is_no_replica_too_many() -> None:
    entities = e.list_partition_reassignments
    move = entities.OngoingPartitionReassignment(
        partition_index=0, replicas=(4, 3, 2), adding_replicas=(4,), removing_replicas=(2,)
    )
    listed = iter(
        tuple(
            (entities.OngoingTopicReassignment(name="t", partitions=(each,)),) if each else ()
            for each in (move, None)
        )
    )
    part = e.metadata.MetadataResponsePartition(
        partition_index=0, leader_id=3, replica_nodes=(4, 3, 2), isr_nodes=(4, 3, 2)
    )

    def answer(call: Call) -> Any:
        if call.api_key != apis.METADATA:
            return entities.ListPartitionReassignmentsResponse(topics=next(listed))
        topic = e.metadata.MetadataResponseTopic(name="t", partitions=(part,))
        return replace(metadata(1), topics=(topic,))

    driver = Driver(answer)
    partitions, moves = driver.run(lambda t, d: replicas.placement(driver.session, t, d))

    assert partitions[T0].replicas == (4, 3, 2)
    assert moves[T0].removing == (2,)
    moved = (apis.LIST_PARTITION_REASSIGNMENTS, CONTROLLER)
    assert driver.asked[1:] == [moved, (apis.METADATA, CONTROLLER), moved]
