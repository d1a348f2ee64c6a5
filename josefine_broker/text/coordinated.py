"""Commands that a group's coordinator decides, wherever it is.

Rules: a broker that does not coordinate the group sends the command to the coordinator, in a line
that starts with `@`; a broker that gets such a line and does not coordinate the group either does
not forward it.
"""

from collections.abc import Callable

from josefine_broker.api.shared.topics import submit_offsets_topic
from josefine_broker.base.acls import Operation
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.offsets import coordinator_partition
from josefine_broker.engine.metadata.image import NO_LEADER, OFFSETS_TOPIC
from josefine_broker.engine.proposing import answer_when_settled
from josefine_broker.text.asking import Work, deadline_of, finish, pause, say
from josefine_broker.text.creating import partition_count
from josefine_broker.text.errors import GONE, NOT_THE_LEADER, error, shown
from josefine_broker.text.front import TEXT_LISTENER, Front

LATER = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)
"""Errors of a coordinator that moves, or whose replicas are offline."""
NO_TOPIC = f"{GONE}topic"

Decide = Callable[[], Work[str]]
"""The coordinator's decision, here. Raises KafkaError."""


def here(decide: Decide) -> Work[str]:
    """The reply to another broker's line: decided by this broker, or refused."""
    try:
        return (yield from decide())
    except KafkaError as refusal:
        return NOT_THE_LEADER if refusal.code in LATER else _refused(refusal)


def coordinated(
    front: Front, topic: str, group: str, line: str, decide: Decide, *, may_ask: bool = False
) -> Work[str]:
    """The coordinator's reply, wherever it is; with `may_ask` also from a strict broker. Raises
    TextError."""
    ctx, deadline_ms = front.ctx, deadline_of(front)
    why = "it has no leader"
    while True:
        leader = yield from _coordinator(front, group, deadline_ms)
        if front.settings.is_strict and not may_ask and leader != ctx.broker_id:
            return NOT_THE_LEADER
        if leader == ctx.broker_id:
            try:
                return (yield from decide())
            except KafkaError as refusal:
                if refusal.code not in LATER:
                    return _refused(refusal)
                why = refusal.message or why
        elif leader != NO_LEADER:
            broker = ctx.image.brokers.get(leader)
            if broker is None or broker.endpoint(TEXT_LISTENER) is None:
                return error(f"broker {leader} coordinates group {group} and has no text listener")
            reply = yield from say(front, leader, line, deadline_ms)
            if reply is None:
                return error(f"broker {leader}, which coordinates group {group}, did not answer")
            if reply != NOT_THE_LEADER and not reply.startswith(NO_TOPIC):
                return reply
            why = "it is moving"
            if reply != NOT_THE_LEADER:
                partition_count(front, topic, Operation.READ)  # it lags, unless this broker does
                why = f"it does not know topic '{shown(topic)}' yet"
        if not (yield from pause(front, deadline_ms)):
            return error(f"the coordinator of group {group} did not take it in time: {why}")


def _coordinator(front: Front, group: str, deadline_ms: int) -> Work[int]:
    """The broker with the group's offsets; NO_LEADER: none now. Creates their topic."""
    ctx = front.ctx
    if OFFSETS_TOPIC not in ctx.image.topics:
        try:
            proposals = submit_offsets_topic(ctx, deadline_ms)
        except KafkaError:
            return NO_LEADER
        yield from finish(answer_when_settled(ctx, proposals, deadline_ms, lambda: None))
    topic = ctx.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        return NO_LEADER
    entry = ctx.image.partition(OFFSETS_TOPIC, coordinator_partition(group, len(topic.partitions)))
    return NO_LEADER if entry is None else entry.leader


def _refused(refusal: KafkaError) -> str:
    return error(refusal.message or refusal.code.name.replace("_", " "))
