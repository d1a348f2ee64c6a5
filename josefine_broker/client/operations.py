"""The common loops of operations: ask one broker, refresh metadata, spread over leaders.

Rules: an operation takes `now_ms` and passes it on; each failure goes through `Attempts.after`,
which alone decides between a pause and giving up; cluster metadata come only from `refresh`, and
only the session forgets them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.cluster import ClusterMetadata, from_response
from josefine_broker.client.effects import (
    ANY_BROKER,
    Call,
    Exchange,
    Operation,
    Pause,
    Unanswered,
)
from josefine_broker.client.retry import Action, action_for
from josefine_broker.client.session import Attempts, Session
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

TOPIC_NAMES = "1 to 249 of a-z A-Z 0-9 . _ -, and neither '.' nor '..'"

ANSWER_SLACK_MS = 1_000
"""Added to the timeout that a request carries."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One partition's part of a response."""

    partition: TopicPartition
    code: ErrorCode
    result: Any
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One kind of request that goes to the leaders of several partitions."""

    api_key: int
    build: Callable[[ClusterMetadata, Sequence[TopicPartition]], Any]
    parse: Callable[[ClusterMetadata, Any], Iterable[Answer]]
    wants_response: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one partition: a value, or the error that ended its retries."""

    result: Any = None
    error: KafkaError | None = None
    passed: tuple[ErrorCode, ...] = ()
    """The earlier errors, in order: one for each retry."""


def ask(attempts: Attempts, call: Call) -> Operation[tuple[Any, int]]:
    """One request, retried until it is answered. Returns (response, now_ms).

    A broker with a timeout in the request answers when that is over, which is our deadline: its
    reason is awaited a moment longer.
    """
    while True:
        now, deadline_ms = call, attempts.deadline_ms
        if hasattr(call.request, "timeout_ms"):
            left_ms = max(0, deadline_ms - attempts.resume_ms)
            now = replace(call, request=replace(call.request, timeout_ms=left_ms))
            deadline_ms += ANSWER_SLACK_MS
        resumed = yield Exchange(calls=(now,), deadline_ms=deadline_ms)
        (reply,) = resumed.replies
        if not isinstance(reply, Unanswered):
            return reply, resumed.now_ms
        yield attempts.after(reply.error, resumed.now_ms)


def ask_until(
    attempts: Attempts, call: Call, check: Callable[[Any], KafkaError | None]
) -> Operation[tuple[Any, int]]:
    """Like `ask`, and retried while `check` finds a retriable error in the response."""
    while True:
        response, now_ms = yield from ask(attempts, call)
        error = check(response)
        if error is None:
            return response, now_ms
        yield attempts.after(error, now_ms)


def answered_error(code: ErrorCode, message: str | None) -> KafkaError | None:
    """The error in an answer's two fields, for `ask_until`; None: success."""
    return None if code is ErrorCode.none else KafkaError(code, message or "")


def ask_each_broker(
    session: Session,
    attempts: Attempts,
    api_key: int,
    request: Any,
    check: Callable[[Any], KafkaError | None],
) -> Operation[list[tuple[int, Any]]]:
    """(broker, response) of every broker, from one round in which all succeeded.

    A broker that fails may have died: its groups move to another broker, which was perhaps asked
    before that. So all brokers registered by then are asked again.
    """
    while True:
        cluster, _ = yield from refresh(session, attempts, ())
        found = []
        for node in sorted(cluster.brokers):
            call = Call(node=node, api_key=api_key, request=request)
            response, error, now_ms = yield from ask_once(attempts, call, check)
            if error is not None:
                yield attempts.after(error, now_ms)
                break
            found.append((node, response))
        else:
            return found


def ask_once(
    attempts: Attempts, call: Call, check: Callable[[Any], KafkaError | None]
) -> Operation[tuple[Any, KafkaError | None, int]]:
    """(response, why it does not count, now_ms): the caller decides which broker to ask again."""
    resumed = yield Exchange(calls=(call,), deadline_ms=attempts.deadline_ms)
    (reply,) = resumed.replies
    error = reply.error if isinstance(reply, Unanswered) else check(reply)
    return reply, error, resumed.now_ms


def refresh(
    session: Session,
    attempts: Attempts,
    topics: Iterable[str] | None,
    *,
    create: bool = False,
    node: int = ANY_BROKER,
) -> Operation[tuple[ClusterMetadata, int]]:
    """Ask any broker, or this one, about `topics` (None: all); merges the answer into the metadata.

    With `create` a missing topic is created, if the broker creates topics for producers.
    """
    wanted = None
    if topics is not None:
        wanted = tuple(e.metadata.MetadataRequestTopic(name=name) for name in sorted(set(topics)))
    request = e.metadata.MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
    call = Call(node=node, api_key=apis.METADATA, request=request)
    response, now_ms = yield from ask_until(attempts, call, _metadata_error)
    newer = from_response(response)
    session.cluster = newer if topics is None else session.cluster.merge(newer)
    return newer, now_ms


def _metadata_error(response: e.metadata.MetadataResponse) -> KafkaError | None:
    if response.error_code is ErrorCode.none:
        return None
    return KafkaError(response.error_code, "the broker refused the metadata request")


def metadata(
    session: Session, topics: Sequence[str] | None, now_ms: int, deadline_ms: int
) -> Operation[ClusterMetadata]:
    """Brokers and the requested topics. A missing topic is included, with its error."""
    attempts = session.start(now_ms, deadline_ms, "metadata")
    found, _ = yield from refresh(session, attempts, topics)
    return found


def partition_count(
    session: Session, topic: str, now_ms: int, deadline_ms: int, *, create: bool = False
) -> Operation[int]:
    """Partitions of a topic, which must exist, or appear within the policy's wait."""
    attempts = session.start(now_ms, deadline_ms, f"topic '{topic}'")
    while True:
        found, now_ms = yield from refresh(session, attempts, (topic,), create=create)
        known = found.topics[topic]
        if known.error_code is ErrorCode.none and known.partitions:
            return len(known.partitions)
        code = known.error_code or ErrorCode.leader_not_available
        error = partition_error(TopicPartition(topic, 0), code, None)
        yield attempts.after(error, now_ms)


def spread(
    session: Session, attempts: Attempts, kind: Spread, wanted: Iterable[TopicPartition]
) -> Operation[dict[TopicPartition, Outcome]]:
    """Send each partition's part to its leader, and retry until it has a final answer.

    Never raises a KafkaError: each partition has its own outcome. Partitions of one leader share a
    request; leaders are asked concurrently.
    """
    pending = dict.fromkeys(wanted)
    outcomes: dict[TopicPartition, Outcome] = {}
    passed: dict[TopicPartition, list[ErrorCode]] = {}
    must_refresh = any(session.cluster.routing_error(tp) is not ErrorCode.none for tp in pending)
    while pending:
        try:
            if must_refresh:
                yield from refresh(session, attempts, {tp.topic for tp in pending})
            errors, now_ms = yield from _one_round(session, attempts, kind, pending, outcomes)
            for tp in outcomes.keys() & pending.keys():
                del pending[tp]
            if pending:
                yield _pause_for(attempts, errors, now_ms, pending, outcomes)
            for tp in pending:
                passed.setdefault(tp, []).append(errors[tp].code)
            must_refresh = True  # a retriable error often means another leader
        except KafkaError as error:
            outcomes |= {tp: Outcome(error=error) for tp in pending}
            break
    for tp, codes in passed.items():
        outcomes[tp] = replace(outcomes[tp], passed=tuple(codes))
    return outcomes


def _pause_for(
    attempts: Attempts,
    errors: dict[TopicPartition, KafkaError],
    now_ms: int,
    pending: dict[TopicPartition, None],
    outcomes: dict[TopicPartition, Outcome],
) -> Pause:
    """The wait before the next round; partitions without a retry get their outcome."""
    pause = attempts.failed(now_ms)
    for tp in list(pending):
        try:
            attempts.judge(errors[tp], now_ms)
        except KafkaError as error:
            outcomes[tp] = Outcome(error=error)
            del pending[tp]
    return pause if pending else Pause(until_ms=now_ms)


def _one_round(
    session: Session,
    attempts: Attempts,
    kind: Spread,
    pending: Iterable[TopicPartition],
    outcomes: dict[TopicPartition, Outcome],
) -> Operation[tuple[dict[TopicPartition, KafkaError], int]]:
    """One request per leader. Fills `outcomes`; returns the retriable errors of the others."""
    routes, errors = route(session.cluster, pending)
    calls = tuple(
        Call(
            node=leader,
            api_key=kind.api_key,
            request=kind.build(session.cluster, partitions),
            wants_response=kind.wants_response,
        )
        for leader, partitions in routes.items()
    )
    resumed = yield Exchange(calls=calls, deadline_ms=attempts.deadline_ms)
    for partitions, reply in zip(routes.values(), resumed.replies, strict=True):
        if isinstance(reply, Unanswered):
            errors |= dict.fromkeys(partitions, reply.error)
        elif reply is None:
            outcomes |= dict.fromkeys(partitions, Outcome())
        else:
            missing = KafkaError(ErrorCode.unknown_server_error, "the response left it out")
            errors |= dict.fromkeys(partitions, missing)
            _sort_answers(kind.parse(session.cluster, reply), outcomes, errors)
    return errors, resumed.now_ms


def _sort_answers(
    answers: Iterable[Answer],
    outcomes: dict[TopicPartition, Outcome],
    errors: dict[TopicPartition, KafkaError],
) -> None:
    for answer in answers:
        if action_for(answer.code) is Action.SUCCEED:
            outcomes[answer.partition] = Outcome(answer.result)
        else:
            errors[answer.partition] = partition_error(
                answer.partition, answer.code, answer.message
            )


def route(
    cluster: ClusterMetadata, partitions: Iterable[TopicPartition]
) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaError]]:
    """Partitions by leader, and why the others cannot be requested now."""
    routes: dict[int, list[TopicPartition]] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for tp in partitions:
        code = cluster.routing_error(tp)
        if code is not ErrorCode.none:
            errors[tp] = unroutable(cluster, tp, code)
            continue
        known = cluster.partition(tp)
        assert known is not None, tp
        routes.setdefault(known.leader, []).append(tp)
    return routes, errors


def unroutable(cluster: ClusterMetadata, tp: TopicPartition, code: ErrorCode) -> KafkaError:
    """Why no broker can be asked about `tp`, with the number of partitions in its topic."""
    topic = cluster.topics.get(tp.topic)
    exists = topic is not None and topic.error_code is ErrorCode.none and bool(topic.partitions)
    if topic is not None and exists and tp.partition not in topic.partitions:
        return KafkaError(
            code,
            f"topic '{tp.topic}' has no partition {tp.partition}: "
            f"it has {len(topic.partitions)}, numbered from 0",
        )
    return partition_error(tp, code, None)


NEEDS_ACL = "this user needs an ACL on the topic (WRITE to produce, READ to consume)"


def partition_error(tp: TopicPartition, code: ErrorCode, message: str | None) -> KafkaError:
    """The error of one partition, with a message that names it."""
    if code is ErrorCode.unknown_topic_or_partition:
        return KafkaError(code, f"topic '{tp.topic}' does not exist")
    if code is ErrorCode.leader_not_available:
        return KafkaError(code, f"partition {tp} has no leader now")
    if code is ErrorCode.invalid_topic_exception and message is None:
        return KafkaError(code, f"'{tp.topic}' cannot name a topic: {TOPIC_NAMES}")
    if code is ErrorCode.topic_authorization_failed and message is None:
        return KafkaError(code, f"partition {tp}: topic authorization failed: {NEEDS_ACL}")
    if code is ErrorCode.corrupt_message and message is None:
        hint = "no replica has the next records intact; 'josefine log verify' finds the place"
        return KafkaError(code, f"partition {tp} is damaged: {hint}")
    reason = message or code.name.replace("_", " ")
    return KafkaError(code, f"partition {tp}: {reason}")


def results(outcomes: dict[TopicPartition, Outcome]) -> dict[TopicPartition, Any]:
    """The results of all partitions. Raises the first error."""
    for outcome in outcomes.values():
        if outcome.error is not None:
            raise outcome.error
    return {tp: outcome.result for tp, outcome in outcomes.items()}
