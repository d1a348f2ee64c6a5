"""Administration of replicas and leaders: reassignments, elections, removal of brokers.

Partitions are requested together and answered one by one: an operation returns the result of each,
and raises only when the request failed as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition, by_topic
from josefine_broker.client.cluster import PartitionMetadata
from josefine_broker.client.effects import ANY_BROKER, CONTROLLER, Call, Operation
from josefine_broker.client.operations import ask, ask_until, partition_error, refresh
from josefine_broker.client.session import Session
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

PREFERRED = 0
UNCLEAN = 1
"""Types of an election (KIP-460)."""

Errors = dict[TopicPartition, KafkaError | None]
"""The result of each partition; None: success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A partition that is being reassigned; `replicas` includes added and removed ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def _whole(response: Any) -> KafkaError | None:
    code = response.error_code
    if code is ErrorCode.none:
        return None
    message = getattr(response, "error_message", None)
    return KafkaError(code, message or code.name.replace("_", " "))


def _not_elected(response: e.elect_leaders.ElectLeadersResponse) -> KafkaError | None:
    """The error of the whole request; the partitions have the messages."""
    error = _whole(response)
    if error is None:
        return None
    told = (p for topic in response.replica_election_results for p in topic.partition_result)
    said = next((each.error_message for each in told if each.error_code is error.code), None)
    return KafkaError(error.code, said or error.message)


def _outcome(tp: TopicPartition, code: ErrorCode, message: str | None) -> KafkaError | None:
    return None if code is ErrorCode.none else partition_error(tp, code, message)


def reassign(
    session: Session,
    targets: Mapping[TopicPartition, tuple[int, ...] | None],
    now_ms: int,
    deadline_ms: int,
) -> Operation[Errors]:
    """Start to move partitions to these brokers, or (None) cancel the current move (KIP-455)."""
    entities = e.alter_partition_reassignments
    request = entities.AlterPartitionReassignmentsRequest(
        timeout_ms=deadline_ms - now_ms,
        topics=tuple(
            entities.ReassignableTopic(
                name=topic,
                partitions=tuple(
                    entities.ReassignablePartition(
                        partition_index=index, replicas=targets[TopicPartition(topic, index)]
                    )
                    for index in indexes
                ),
            )
            for topic, indexes in by_topic(targets).items()
        ),
    )
    # A new topic may be unknown for a moment, which other operations wait out. Here the user names
    # an existing one: an unknown one is a typing error, reported at once.
    attempts = session.start(now_ms, deadline_ms, "reassign", unknown_is_final=True)
    call = Call(node=CONTROLLER, api_key=apis.ALTER_PARTITION_REASSIGNMENTS, request=request)
    response, _ = yield from ask_until(attempts, call, _whole)
    return {
        tp: _outcome(tp, each.error_code, each.error_message)
        for topic in response.responses
        for each in topic.partitions
        for tp in (TopicPartition(topic.name, each.partition_index),)
    }


def list_reassignments(
    session: Session, now_ms: int, deadline_ms: int
) -> Operation[dict[TopicPartition, Move]]:
    """Every partition that is being moved."""
    request = e.list_partition_reassignments.ListPartitionReassignmentsRequest(
        timeout_ms=deadline_ms - now_ms, topics=None
    )
    attempts = session.start(now_ms, deadline_ms, "list reassignments")
    call = Call(node=CONTROLLER, api_key=apis.LIST_PARTITION_REASSIGNMENTS, request=request)
    response, _ = yield from ask_until(attempts, call, _whole)
    return {
        TopicPartition(topic.name, each.partition_index): Move(
            replicas=each.replicas,
            adding=each.adding_replicas,
            removing=each.removing_replicas,
        )
        for topic in response.topics
        for each in topic.partitions
    }


def placement(
    session: Session, now_ms: int, deadline_ms: int
) -> Operation[tuple[dict[TopicPartition, PartitionMetadata], dict[TopicPartition, Move]]]:
    """Every partition and every move, of one moment.

    In the metadata a replica that is being added looks like one that stays; the moves, which are
    another request, show the difference. A move that ends between the two would leave a partition
    with one replica too many and no move, and so would a broker that is behind. So the controller
    answers both, and lists the moves before and after its metadata: all of them count.
    """
    attempts = session.start(now_ms, deadline_ms, "describe the replicas")
    yield from refresh(session, attempts, ())
    before = yield from list_reassignments(session, now_ms, deadline_ms)
    found, now_ms = yield from refresh(session, attempts, None, node=CONTROLLER)
    after = yield from list_reassignments(session, now_ms, deadline_ms)
    partitions = {
        TopicPartition(topic.name, index): partition
        for topic in found.topics.values()
        for index, partition in topic.partitions.items()
    }
    return partitions, {**before, **after}


def elect_leaders(
    session: Session,
    election: int,
    partitions: Iterable[TopicPartition],
    now_ms: int,
    deadline_ms: int,
) -> Operation[Errors]:
    """Elect PREFERRED or UNCLEAN leaders. Only the controller does it: another broker refuses, and
    then the metadata name the controller. A partition that changed meanwhile is asked for again."""
    entities = e.elect_leaders
    request = entities.ElectLeadersRequest(
        election_type=election,
        topic_partitions=tuple(
            entities.TopicPartitions(topic=topic, partitions=tuple(indexes))
            for topic, indexes in by_topic(partitions).items()
        ),
        timeout_ms=deadline_ms - now_ms,
    )
    attempts = session.start(now_ms, deadline_ms, "elect leaders", unknown_is_final=True)
    call = Call(node=CONTROLLER, api_key=apis.ELECT_LEADERS, request=request)
    outcomes: Errors = {}
    # `ask_until` does not do: the refusal does not name the controller, so every attempt has to
    # refresh the metadata first.
    while True:
        yield from refresh(session, attempts, ())
        response, now_ms = yield from ask(attempts, call)
        error = _not_elected(response)
        if error is None:
            # Of a partition that was elected before, another election is not needed.
            elected = {tp for tp, each in outcomes.items() if each is None}
            outcomes = {
                tp: None if tp in elected else _outcome(tp, each.error_code, each.error_message)
                for topic in response.replica_election_results
                for each in topic.partition_result
                for tp in (TopicPartition(topic.topic, each.partition_id),)
            }
            error = next(filter(_has_changed, outcomes.values()), None)
            if error is None:
                return outcomes
        yield attempts.after(error, now_ms)


def _has_changed(error: KafkaError | None) -> bool:
    """Whether the partition changed while its leader was elected."""
    return error is not None and error.code is ErrorCode.leader_not_available


def remove_broker(
    session: Session, broker_id: int, now_ms: int, deadline_ms: int
) -> Operation[None]:
    """Remove a broker from the cluster for good (KIP-631); it must hold no replicas."""
    request = e.unregister_broker.UnregisterBrokerRequest(broker_id=broker_id)
    attempts = session.start(now_ms, deadline_ms, "remove broker")
    call = Call(node=ANY_BROKER, api_key=apis.UNREGISTER_BROKER, request=request)
    yield from ask_until(attempts, call, _whole)


def remove_voter(
    session: Session, broker_id: int, now_ms: int, deadline_ms: int
) -> Operation[None]:
    """Remove the vote of a broker that lost its data (KIP-853), and wait until it is gone."""
    request = e.remove_raft_voter.RemoveRaftVoterRequest(voter_id=broker_id)
    attempts = session.start(now_ms, deadline_ms, "remove voter")
    call = Call(node=CONTROLLER, api_key=apis.REMOVE_RAFT_VOTER, request=request)
    has_begun = False
    while True:
        yield from refresh(session, attempts, ())
        response, now_ms = yield from ask(attempts, call)
        error = _whole(response)
        if error is None:
            has_begun = True
            error = KafkaError(ErrorCode.request_timed_out, "the other voters have not agreed yet")
        elif error.code is ErrorCode.voter_not_found and has_begun:
            return
        yield attempts.after(error, now_ms)
