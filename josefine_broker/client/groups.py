"""Committed offsets of consumer groups, and producer ids.

The coordinator of a group is cached, and looked up again when a broker refuses that role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition, by_topic
from josefine_broker.client.cluster import topic_name
from josefine_broker.client.effects import ANY_BROKER, Call, Exchange, Operation, Unanswered
from josefine_broker.client.operations import ask_until, partition_error, refresh, unroutable
from josefine_broker.client.retry import Action, action_for
from josefine_broker.client.session import Attempts, Session
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

NO_OFFSET = -1
NO_GENERATION = -1
NO_MEMBER = ""
TRANSACTION_TIMEOUT_MS = 60_000
"""InitProducerId carries one even without transactions; brokers check its range."""


@dataclass(frozen=True, slots=True)
class Committer:
    """The committing client: a member in its generation, or none (a group without members)."""

    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION


NOBODY = Committer()


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The identity that a broker gave an idempotent producer (KIP-98)."""

    producer_id: int
    producer_epoch: int


NOT_ALLOWED_TO_WRITE = (
    "this user may write to no topic: it needs an ACL that allows WRITE on the topic, "
    "or IDEMPOTENT_WRITE on the cluster"
)


def init_producer_id(
    session: Session, now_ms: int, deadline_ms: int
) -> Operation[ProducerIdentity]:
    """A new producer id for an idempotent producer."""
    attempts = session.start(now_ms, deadline_ms, "producer id")
    request = e.init_producer_id.InitProducerIdRequest(
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
    )
    call = Call(node=ANY_BROKER, api_key=apis.INIT_PRODUCER_ID, request=request)
    response, _ = yield from ask_until(attempts, call, _producer_id_error)
    return ProducerIdentity(response.producer_id, response.producer_epoch)


def _producer_id_error(response: e.init_producer_id.InitProducerIdResponse) -> KafkaError | None:
    if response.error_code is ErrorCode.none:
        return None
    if response.error_code is ErrorCode.cluster_authorization_failed:
        return KafkaError(response.error_code, NOT_ALLOWED_TO_WRITE)
    reason = response.error_code.name.replace("_", " ")
    return KafkaError(response.error_code, f"the broker gave no producer id: {reason}")


def find_coordinator(session: Session, attempts: Attempts, group: str) -> Operation[int]:
    """Broker id of the group's coordinator; the metadata then has its address."""
    request = e.find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))
    call = Call(node=ANY_BROKER, api_key=apis.FIND_COORDINATOR, request=request)
    response, _ = yield from ask_until(attempts, call, lambda r: _coordinator_error(group, r))
    node: int = response.coordinators[0].node_id
    if node not in session.cluster.brokers:
        yield from refresh(session, attempts, ())
    session.coordinators[group] = node
    return node


def _coordinator_error(
    group: str, response: e.find_coordinator.FindCoordinatorResponse
) -> KafkaError | None:
    found = response.coordinators[0]
    if found.error_code is ErrorCode.none:
        return None
    reason = found.error_message or found.error_code.name.replace("_", " ")
    return KafkaError(found.error_code, f"no coordinator for group '{group}': {reason}")


def ask_coordinator(
    session: Session,
    attempts: Attempts,
    group: str,
    api_key: int,
    request: Any,
    check: Callable[[Any], KafkaError | None],
) -> Operation[Any]:
    """Send one request to the group's coordinator, following it when it moves."""
    while True:
        node = session.coordinators.get(group)
        if node is None:
            node = yield from find_coordinator(session, attempts, group)
        call = Call(node=node, api_key=api_key, request=request)
        resumed = yield Exchange(calls=(call,), deadline_ms=attempts.deadline_ms)
        (reply,) = resumed.replies
        error = reply.error if isinstance(reply, Unanswered) else check(reply)
        if error is None:
            return reply
        if action_for(error.code) in (Action.COORDINATE, Action.REFRESH):
            session.coordinators.pop(group, None)
        yield attempts.after(error, resumed.now_ms)


def commit_offsets(
    session: Session,
    group: str,
    offsets: Mapping[TopicPartition, int],
    now_ms: int,
    deadline_ms: int,
    committer: Committer = NOBODY,
    metadata: str | Mapping[TopicPartition, str] = "",
) -> Operation[None]:
    """Store the next offset to read per partition. Raises KafkaError if `committer` is refused.

    `metadata`: a text of the committer, stored with each offset, or one for each partition."""
    attempts = session.start(now_ms, deadline_ms, "commit offsets")
    yield from _know_topics(session, attempts, offsets)
    # Both the name and the id of each topic: the version is chosen later, and 10 and above encode
    # the id only, older ones the name only.
    entities = e.offset_commit
    topics = tuple(
        entities.OffsetCommitRequestTopic(
            name=topic,
            topic_id=session.cluster.topic_id(topic),
            partitions=tuple(
                entities.OffsetCommitRequestPartition(
                    partition_index=p,
                    committed_offset=offsets[TopicPartition(topic, p)],
                    committed_metadata=(
                        metadata
                        if isinstance(metadata, str)
                        else metadata[TopicPartition(topic, p)]
                    ),
                )
                for p in numbers
            ),
        )
        for topic, numbers in by_topic(offsets).items()
    )
    request = entities.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=committer.generation,
        member_id=committer.member_id,
        topics=topics,
    )
    yield from ask_coordinator(
        session,
        attempts,
        group,
        apis.OFFSET_COMMIT,
        request,
        lambda response: _commit_error(session, group, response),
    )


def _commit_error(
    session: Session, group: str, response: e.offset_commit.OffsetCommitResponse
) -> KafkaError | None:
    for topic in response.topics:
        name = topic_name(session.cluster, topic.name, topic.topic_id)
        for p in topic.partitions:
            if p.error_code is not ErrorCode.none:
                tp = TopicPartition(name, p.partition_index)
                reason = p.error_code.name.replace("_", " ")
                return KafkaError(p.error_code, f"offset of {tp} for group '{group}': {reason}")
    return None


def committed_offsets(
    session: Session,
    group: str,
    partitions: Iterable[TopicPartition],
    now_ms: int,
    deadline_ms: int,
) -> Operation[dict[TopicPartition, int]]:
    """The committed offset of each partition that has one."""
    found = yield from committed(session, group, partitions, now_ms, deadline_ms)
    return {tp: each.offset for tp, each in found.items()}


class Committed(NamedTuple):
    """What a group has stored for a partition. `metadata`: the text of the committer."""

    offset: int
    metadata: str


def committed(
    session: Session,
    group: str,
    partitions: Iterable[TopicPartition],
    now_ms: int,
    deadline_ms: int,
) -> Operation[dict[TopicPartition, Committed]]:
    """The committed offset, with its metadata, of each partition that has one."""
    attempts = session.start(now_ms, deadline_ms, "committed offsets")
    wanted = tuple(partitions)
    yield from _know_topics(session, attempts, wanted)
    entities = e.offset_fetch
    topics = tuple(
        entities.OffsetFetchRequestTopics(
            name=topic,
            topic_id=session.cluster.topic_id(topic),
            partition_indexes=tuple(numbers),
        )
        for topic, numbers in by_topic(wanted).items()
    )
    request = entities.OffsetFetchRequest(
        groups=(entities.OffsetFetchRequestGroup(group_id=group, topics=topics),)
    )
    response = yield from ask_coordinator(
        session,
        attempts,
        group,
        apis.OFFSET_FETCH,
        request,
        lambda response: _fetch_error(group, response),
    )
    # One error fails the whole answer: without it a partition would look as if never committed.
    found = {}
    for topic in response.groups[0].topics:
        name = topic_name(session.cluster, topic.name, topic.topic_id)
        for p in topic.partitions:
            if p.error_code is not ErrorCode.none:
                raise partition_error(TopicPartition(name, p.partition_index), p.error_code, None)
            if p.committed_offset != NO_OFFSET:
                tp = TopicPartition(name, p.partition_index)
                found[tp] = Committed(p.committed_offset, p.metadata or "")
    return found


def _fetch_error(group: str, response: e.offset_fetch.OffsetFetchResponse) -> KafkaError | None:
    code = response.groups[0].error_code
    if code is ErrorCode.none:
        codes = (p.error_code for t in response.groups[0].topics for p in t.partitions)
        code = next((c for c in codes if action_for(c) is Action.RETRY), ErrorCode.none)
    if code is ErrorCode.none:
        return None
    return KafkaError(code, f"offsets of group '{group}': {code.name.replace('_', ' ')}")


def _know_topics(
    session: Session, attempts: Attempts, partitions: Iterable[TopicPartition]
) -> Operation[None]:
    """Topic ids are needed for the versions that carry no names (KIP-848's OffsetCommit 10)."""
    unknown = {tp for tp in partitions if session.cluster.topic_id(tp.topic) is None}
    while unknown:
        cluster, now_ms = yield from refresh(session, attempts, {tp.topic for tp in unknown})
        for tp in sorted(unknown):
            code = session.cluster.topics[tp.topic].error_code
            if code is not ErrorCode.none:
                yield attempts.after(unroutable(cluster, tp, code), now_ms)
                break
        else:
            return
