"""ListPartitionReassignments (key 46, KIP-455): the ongoing moves in this broker's image."""

from collections.abc import Iterable

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.image import TopicEntry
from josefine_broker.wire.entities import list_partition_reassignments as e


def handle(
    ctx: Context, info: RequestInfo, request: e.ListPartitionReassignmentsRequest
) -> e.ListPartitionReassignmentsResponse:
    """The requested partitions (null: all) that are moving; others are left out."""
    asked: Iterable[tuple[str, Iterable[int] | None]]
    if request.topics is None:
        asked = ((name, None) for name in sorted(ctx.image.topics))
    else:
        asked = ((topic.name, topic.partition_indexes) for topic in request.topics)
    found = []
    for name, indexes in asked:
        topic = ctx.image.topics.get(name)
        partitions = () if topic is None else _ongoing(topic, indexes)
        if partitions:
            found.append(e.OngoingTopicReassignment(name=name, partitions=partitions))
    return e.ListPartitionReassignmentsResponse(topics=tuple(found))


def refuse(
    request: e.ListPartitionReassignmentsRequest, error: KafkaError
) -> e.ListPartitionReassignmentsResponse:
    """The answer when the whole request is refused."""
    return e.ListPartitionReassignmentsResponse(
        error_code=error.code, error_message=error.message or None, topics=()
    )


def _ongoing(
    topic: TopicEntry, indexes: Iterable[int] | None
) -> tuple[e.OngoingPartitionReassignment, ...]:
    count = len(topic.partitions)
    wanted = range(count) if indexes is None else sorted({i for i in indexes if 0 <= i < count})
    return tuple(
        e.OngoingPartitionReassignment(
            partition_index=index,
            replicas=entry.replicas,
            adding_replicas=entry.adding,
            removing_replicas=entry.removing,
        )
        for index, entry in ((index, topic.partitions[index]) for index in wanted)
        if entry.is_reassigning
    )
