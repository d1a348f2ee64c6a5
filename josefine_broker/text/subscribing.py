"""SUBS, UNSUBS, DISC, and the sign of life in CONS: decided by the group's coordinator alone.

Rules: a grant is reported once every in-sync replica has it.
"""

import json

from josefine_broker.base.acls import Operation, ResourceType
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of, store_offsets
from josefine_broker.engine.groups.offsets import CommittedOffset
from josefine_broker.engine.groups.text_groups import holder_in
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.text.asking import Work, check
from josefine_broker.text.coordinated import coordinated, here
from josefine_broker.text.creating import DONE, partition_count, whole_number
from josefine_broker.text.errors import GONE, TextError, error, shown
from josefine_broker.text.front import Client, Front
from josefine_broker.text.messages import ok
from josefine_broker.text.subscriptions import SubscriptionId, held, parse_id

NONE_FREE = "Failed to create subscription. All partitions are already assigned"
NO_NUMBER = "error converting partition string from user input"
GROUP_CHARS_MAX = 249
GROUP_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def subscribe(front: Front, client: Client, fields: list[str]) -> Work[str]:
    """SUBS. Raises TextError."""
    topic, group, wanted = _parse_subscribe(front, fields)
    room = front.settings.subscriptions_max - len(client.held)
    if room < 1:
        return error(f"this connection holds {len(client.held)} subscriptions, which is the limit")
    line = f"@SUBS {topic} {group} {min(wanted, room)}"
    reply = yield from coordinated(
        front, topic, group, line, lambda: _grant(front, topic, group, min(wanted, room))
    )
    if reply.startswith("{"):
        client.held.update(dict.fromkeys(json.loads(reply)["Data"], topic))
    return reply


def unsubscribe(front: Front, client: Client, fields: list[str]) -> Work[str]:
    """UNSUBS. Raises TextError."""
    topic, text, id_ = _parse_id(front, fields)
    line = f"@UNSUBS {topic} {text}"
    try:
        reply = yield from coordinated(
            front, topic, id_.group_id, line, lambda: _release(front, topic, text)
        )
    except TextError as refusal:
        reply = str(refusal)
    if reply == DONE or reply.startswith(GONE):
        client.held.pop(text, None)
    return reply


def disconnect(front: Front, client: Client, _fields: list[str]) -> Work[str]:
    """DISC: release the subscriptions granted on this connection, and disconnect."""
    client.is_leaving = True
    for text, topic in list(client.held.items()):
        try:
            yield from unsubscribe(front, client, [topic, text])
        except TextError:
            client.held.pop(text)  # with its topic
    if client.held:
        return error(f"{len(client.held)} subscriptions are still held, until they time out")
    return DONE


def keep(front: Front, topic: str, text: str, offset: int) -> Work[str]:
    """A subscription is alive and its position is `offset`; returns the error, empty if none.
    Raises TextError."""
    _, _, id_ = _parse_id(front, [topic, text])
    line = f"@KEEP {topic} {text} {offset}"
    reply = yield from coordinated(
        front, topic, id_.group_id, line, lambda: _keep(front, topic, text, offset), may_ask=True
    )
    return "" if reply == DONE else reply


# Lines of other brokers, with an `@`: the same commands, decided here or refused.


def subscribe_here(front: Front, _client: Client, fields: list[str]) -> Work[str]:
    """@SUBS. Raises TextError."""
    topic, group, wanted = _parse_subscribe(front, fields)
    return (yield from here(lambda: _grant(front, topic, group, wanted)))


def unsubscribe_here(front: Front, _client: Client, fields: list[str]) -> Work[str]:
    """@UNSUBS. Raises TextError."""
    topic, text, _ = _parse_id(front, fields)
    return (yield from here(lambda: _release(front, topic, text)))


def keep_here(front: Front, _client: Client, fields: list[str]) -> Work[str]:
    """@KEEP. Raises TextError."""
    topic, text, _ = _parse_id(front, fields)
    if len(fields) < 3 or not fields[2].isascii() or not fields[2].isdigit():
        return error("@KEEP takes a topic, a subscription and an offset")
    offset = int(fields[2][:19])
    return (yield from here(lambda: _keep(front, topic, text, offset)))


# Decisions.


def _grant(front: Front, topic: str, group: str, wanted: int) -> Work[str]:
    """Grant up to `wanted` free partitions. Raises KafkaError, TextError."""
    ctx, subscriptions = front.ctx, front.subscriptions
    coordinator_of(ctx, group)
    now_ms = ctx.clock.now_ms()
    committed = ctx.clients.groups.coordinator.offsets.committed(group)
    parts = (
        TopicPartition(topic, each) for each in range(partition_count(front, topic, Operation.READ))
    )
    free = [tp for tp in parts if subscriptions.is_free(group, tp, committed.get(tp), now_ms)]
    if not free:
        return NONE_FREE
    chosen = free[:wanted]
    ids = [str(SubscriptionId(group, tp.partition, _nonce(front))) for tp in chosen]
    offsets: list[tuple[TopicPartition, CommittedOffset]] = []
    for tp, id_ in zip(chosen, ids, strict=True):
        before = committed.get(tp)
        offsets.append((tp, held(before, id_, now_ms, 0 if before is None else before.offset)))
    yield from _store(front, group, offsets)
    return ok(ids)


def _release(front: Front, topic: str, text: str) -> Work[str]:
    """Raises KafkaError, TextError."""
    tp, id_, committed = _held(front, topic, text, may_be_late=True)
    released = held(committed, "", front.ctx.clock.now_ms(), committed.offset)
    yield from _store(front, id_.group_id, [(tp, released)])
    front.subscriptions.heard_ms.pop(text, None)
    return DONE


def _keep(front: Front, topic: str, text: str, offset: int) -> Work[str]:
    """Raises KafkaError, TextError."""
    tp, id_, committed = _held(front, topic, text)
    now_ms = front.ctx.clock.now_ms()
    front.subscriptions.heard(text, now_ms)
    if front.subscriptions.is_commit_due(committed, offset, now_ms):
        yield from _store(front, id_.group_id, [(tp, held(committed, text, now_ms, offset))])
    return DONE


def _held(
    front: Front, topic: str, text: str, *, may_be_late: bool = False
) -> tuple[TopicPartition, SubscriptionId, CommittedOffset]:
    """This coordinator's record of a subscription. Raises KafkaError, TextError."""
    id_ = parse_id(text)
    if id_ is not None:
        coordinator_of(front.ctx, id_.group_id)
        tp = TopicPartition(topic, id_.partition)
        if (id_.group_id, tp) in front.subscriptions.writing:
            busy = "another change of it is under way"
            raise KafkaError(ErrorCode.coordinator_not_available, busy)
        committed = front.ctx.clients.groups.coordinator.offsets.committed(id_.group_id).get(tp)
        now_ms = front.ctx.clock.now_ms()
        if committed is not None and holder_in(committed.metadata) == text:
            is_late = front.subscriptions.is_free(id_.group_id, tp, committed, now_ms)
            if is_late and not may_be_late:
                raise TextError(f"{GONE}subscription '{shown(text)}' any more: it timed out")
            return tp, id_, committed
    raise TextError(f"{GONE}subscription '{shown(text)}' of topic '{shown(topic)}'")


def _store(
    front: Front, group: str, offsets: list[tuple[TopicPartition, CommittedOffset]]
) -> Work[None]:
    """Store it on every in-sync replica. Raises KafkaError."""
    _check_simple(front, group)
    outcome: list[KafkaError | None] = []
    writing = front.subscriptions.writing
    marks = {(group, tp) for tp, _ in offsets}

    def settle(failure: KafkaError | None) -> None:
        writing.difference_update(marks)
        outcome.append(failure)

    stored = store_offsets(front.ctx, group, offsets, settle)
    if isinstance(stored, Parked):
        writing.update(marks)
        try:
            yield stored
        finally:
            writing.difference_update(marks)
    failure = outcome[0] if outcome else _unknown()
    if failure is not None:
        raise failure


def _check_simple(front: Front, group: str) -> None:
    """Offsets of a group with members belong to these. Raises KafkaError."""
    if not front.ctx.clients.groups.coordinator.may_hold(group):
        why = f"group '{group}' has members, who are Kafka clients: use another"
        raise KafkaError(ErrorCode.inconsistent_group_protocol, why)


def _unknown() -> KafkaError:
    return KafkaError(ErrorCode.unknown_server_error, "nobody knows whether it was committed")


def _nonce(front: Front) -> str:
    return f"{front.ctx.ports.rng.getrandbits(32):08x}"


# Parsing.


def _parse_subscribe(front: Front, fields: list[str]) -> tuple[str, str, int]:
    """(topic, group, partitions at most). Raises TextError."""
    if len(fields) < 2 or not all(fields[:2]):
        raise TextError(error("topic and consumer_group is a required field"))
    topic, group, wanted = fields[0], fields[1], 1
    if len(fields) > 2:
        text = fields[2]
        wanted = whole_number(text.removeprefix("-"))
        if wanted < 0:
            raise TextError(NO_NUMBER)
        if wanted == 0 or text.startswith("-"):
            raise TextError(f"{text} is not a valid value for partition number")
    if len(group) > GROUP_CHARS_MAX or not GROUP_CHARS.issuperset(group):
        raise TextError(
            error(
                f"a consumer group is 1 to {GROUP_CHARS_MAX} of a-z A-Z 0-9 . _ -,"
                f" not '{shown(group)}'"
            )
        )
    partition_count(front, topic, Operation.READ)
    check(front, Operation.READ, ResourceType.GROUP, group)
    return topic, group, wanted


def _parse_id(front: Front, fields: list[str]) -> tuple[str, str, SubscriptionId]:
    """(topic, subscription id as text and parsed). Raises TextError."""
    if len(fields) < 2 or not all(fields[:2]):
        raise TextError(error("topic and subscriptionId are a required field"))
    topic, text = fields[:2]
    count = partition_count(front, topic, Operation.READ)
    id_ = parse_id(text)
    if id_ is None or id_.partition >= count or not GROUP_CHARS.issuperset(id_.group_id):
        raise TextError(
            error(f"there is no subscription '{shown(text)}' of topic '{shown(topic)}'")
        )
    check(front, Operation.READ, ResourceType.GROUP, id_.group_id)
    return topic, text, id_
