"""CRTP topic [partitions]: creates a topic, like CreateTopics; `Done` once it is committed."""

from josefine_broker.base.acls import Operation, ResourceType
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import Context
from josefine_broker.engine.metadata.image import INTERNAL_TOPICS
from josefine_broker.text.asking import Work, ask, check, deadline_of, may
from josefine_broker.text.errors import NOT_THE_LEADER, TextError, error, shown
from josefine_broker.text.front import Client, Front
from josefine_broker.wire import apis
from josefine_broker.wire.entities import create_topics as e

DONE = "Done"
BAD_COUNT = "Please try again with correct Partition number"
DIGITS_MAX = 9
BY_THE_BROKER = -1


def create(front: Front, _client: Client, fields: list[str]) -> Work[str]:
    """The reply."""
    name, count = fields[0] if fields else "", 1
    if not name:
        return error("topic name is required field")
    if len(fields) > 1:
        count = whole_number(fields[1])
        if count < 1:
            return BAD_COUNT
    ctx = front.ctx
    if front.settings.is_strict and ctx.cluster.controller_id != ctx.broker_id:
        return NOT_THE_LEADER
    if name in INTERNAL_TOPICS:
        return error(f"'{name}' is the broker's own topic")
    if name in ctx.image.topics and may(front, Operation.DESCRIBE, ResourceType.TOPIC, name):
        return _compare(ctx, name, count)
    wish = e.CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=BY_THE_BROKER,
        assignments=(),
        configs=(),
    )
    request = e.CreateTopicsRequest(topics=(wish,), timeout_ms=front.settings.timeout_ms)
    here = ctx.broker_id  # any broker proposes any change
    answer = yield from ask(front, here, apis.CREATE_TOPICS, request, deadline_of(front))
    if answer is None:
        return error("nobody knows whether the topic was made")
    (result,) = answer.topics
    if result.error_code is ErrorCode.topic_already_exists:  # by another client, meanwhile
        return _compare(ctx, name, count)
    if result.error_code is not ErrorCode.none:
        return error(result.error_message or result.error_code.name.replace("_", " "))
    return DONE


def _compare(ctx: Context, name: str, count: int) -> str:
    topic = ctx.image.topics.get(name)
    if topic is None or len(topic.partitions) == count:
        return DONE
    there = len(topic.partitions)
    return error(f"topic '{shown(name)}' is there already, with {there} partitions and not {count}")


def whole_number(text: str) -> int:
    """The number in the text; -1 for anything but digits."""
    if not (text.isascii() and text.isdigit()) or len(text) > DIGITS_MAX:
        return -1
    return int(text)


def partition_count(front: Front, topic: str, operation: Operation) -> int:
    """Partitions of an existing topic, if the operation on it is allowed. Raises TextError."""
    check(front, operation, ResourceType.TOPIC, topic)
    entry = front.ctx.image.topics.get(topic)
    if entry is None:
        raise TextError(error(f"there is no topic '{shown(topic)}'"))
    return len(entry.partitions)
