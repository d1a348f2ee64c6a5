"""DescribeTopicPartitions (key 75, KIP-966): partitions page by page, for admin tools.

Topics are sorted by name; a page ends after `response_partition_limit` partitions, and the cursor
marks the start of the next one. Without topic names: all of them.
"""

from josefine_broker.api.shared.topics import ALL_TOPIC_OPERATIONS, reachable_brokers
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.image import NO_LEADER, PartitionEntry, TopicEntry
from josefine_broker.wire.entities import describe_topic_partitions as e

PARTITIONS_MAX = 2000
"""`max.request.partition.size.limit` of Kafka."""


def handle(
    ctx: Context, info: RequestInfo, request: e.DescribeTopicPartitionsRequest
) -> e.DescribeTopicPartitionsResponse:
    """One page of partitions, and the start of the next one."""
    reachable = frozenset(each.broker_id for each, _ in reachable_brokers(ctx, info.listener))
    room = request.response_partition_limit
    if not 1 <= room <= PARTITIONS_MAX:
        room = PARTITIONS_MAX
    names = sorted({topic.name for topic in request.topics} or ctx.image.topics)
    first = 0
    cursor = request.cursor
    if cursor is not None:
        if cursor.partition_index < 0:
            raise KafkaError(ErrorCode.invalid_request, "a cursor before the first partition")
        # The cursor's topic may be deleted by now: then the page starts with the next name.
        names = [name for name in names if name >= cursor.topic_name]
        first = cursor.partition_index if names and names[0] == cursor.topic_name else 0
    topics = []
    next_cursor = None
    for name in names:
        topic = ctx.image.topics.get(name)
        if topic is None:
            topics.append(_missing(name))
            continue
        if room == 0:
            next_cursor = e.Cursor(topic_name=name, partition_index=0)
            break
        end = min(len(topic.partitions), first + room)
        topics.append(_topic(topic, range(first, end), reachable))
        room -= max(0, end - first)
        if end < len(topic.partitions):
            next_cursor = e.Cursor(topic_name=name, partition_index=end)
            break
        first = 0
    return e.DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=next_cursor)


def refuse(
    request: e.DescribeTopicPartitionsRequest, error: KafkaError
) -> e.DescribeTopicPartitionsResponse:
    """The answer when the whole request is refused."""
    topics = tuple(
        e.DescribeTopicPartitionsResponseTopic(
            error_code=error.code, name=topic.name, partitions=()
        )
        for topic in request.topics
    )
    return e.DescribeTopicPartitionsResponse(topics=topics)


def _missing(name: str) -> e.DescribeTopicPartitionsResponseTopic:
    return e.DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.unknown_topic_or_partition, name=name, partitions=()
    )


def _topic(
    topic: TopicEntry, indexes: range, reachable: frozenset[int]
) -> e.DescribeTopicPartitionsResponseTopic:
    return e.DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(_partition(at, topic.partitions[at], reachable) for at in indexes),
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )


def _partition(
    index: int, entry: PartitionEntry, reachable: frozenset[int]
) -> e.DescribeTopicPartitionsResponsePartition:
    led = entry.leader in reachable
    return e.DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.none if led else ErrorCode.leader_not_available,
        partition_index=index,
        leader_id=entry.leader if led else NO_LEADER,
        leader_epoch=entry.leader_epoch,
        replica_nodes=entry.replicas,
        isr_nodes=entry.isr,
        eligible_leader_replicas=entry.elr,
        offline_replicas=tuple(each for each in entry.replicas if each not in reachable),
    )
