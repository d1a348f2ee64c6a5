"""DescribeProducers (key 61, KIP-664): the producers of a partition, from its leader: epochs,
sequences, and the start of each open transaction."""

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.wire.entities import describe_producers as e

NONE = -1


def handle(
    ctx: Context, info: RequestInfo, request: e.DescribeProducersRequest
) -> e.DescribeProducersResponse:
    """Errors are per partition."""
    return e.DescribeProducersResponse(
        topics=tuple(
            e.TopicResponse(
                name=topic.name,
                partitions=tuple(_describe(ctx, topic.name, at) for at in topic.partition_indexes),
            )
            for topic in request.topics
        )
    )


def refuse(request: e.DescribeProducersRequest, error: KafkaError) -> e.DescribeProducersResponse:
    """The answer when the whole request is refused."""
    return e.DescribeProducersResponse(
        topics=tuple(
            e.TopicResponse(
                name=topic.name,
                partitions=tuple(_failed(at, error) for at in topic.partition_indexes),
            )
            for topic in request.topics
        )
    )


def _describe(ctx: Context, topic: str, index: int) -> e.PartitionResponse:
    try:
        partition = ctx.hosted_partition(topic, index).partition
        partition.check_serves()
    except KafkaError as error:
        return _failed(index, error)
    return e.PartitionResponse(partition_index=index, active_producers=_producers(partition))


def _producers(partition: Partition) -> tuple[e.ProducerState, ...]:
    state, found = partition.producers, []
    for producer_id, entry in state.entries():
        transaction = state.transactions.open_of(producer_id)
        found.append(
            e.ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.marks[-1].last_sequence if entry.marks else NONE,
                last_timestamp=entry.seen_ms,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=(
                    NONE if transaction is None else transaction.first_offset
                ),
            )
        )
    return tuple(found)


def _failed(index: int, error: KafkaError) -> e.PartitionResponse:
    return e.PartitionResponse(
        partition_index=index, error_code=error.code, error_message=error.message or None
    )
