"""DescribeLogDirs (key 35, KIP-113): the size of each hosted partition, all in one directory."""

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.wire.entities import describe_log_dirs as e


def handle(
    ctx: Context, info: RequestInfo, request: e.DescribeLogDirsRequest
) -> e.DescribeLogDirsResponse:
    """The sizes of the named partitions, of all of them for null."""
    wanted = sorted(ctx.hosted.partitions)
    if request.topics is not None:
        asked = {(each.topic, index) for each in request.topics for index in each.partitions}
        wanted = [key for key in wanted if key in asked]
    by_topic: dict[str, list[e.DescribeLogDirsPartition]] = {}
    for topic, index in wanted:
        size = ctx.hosted.partitions[topic, index].log.size_bytes
        by_topic.setdefault(topic, []).append(
            e.DescribeLogDirsPartition(partition_index=index, partition_size=size, offset_lag=0)
        )
    topics = tuple(
        e.DescribeLogDirsTopic(name=name, partitions=tuple(partitions))
        for name, partitions in by_topic.items()
    )
    result = e.DescribeLogDirsResult(log_dir=ctx.settings.data_directory, topics=topics)
    return e.DescribeLogDirsResponse(results=(result,))


def refuse(request: e.DescribeLogDirsRequest, error: KafkaError) -> e.DescribeLogDirsResponse:
    """The answer when the whole request is refused."""
    return e.DescribeLogDirsResponse(error_code=error.code, results=())
