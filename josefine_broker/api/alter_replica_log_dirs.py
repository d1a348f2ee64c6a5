"""AlterReplicaLogDirs (key 34, KIP-113): moves replicas to another log directory of this broker.

A broker has one, so every replica here is already in place, or the directory is unknown.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.wire.entities import alter_replica_log_dirs as e


def handle(
    ctx: Context, info: RequestInfo, request: e.AlterReplicaLogDirsRequest
) -> e.AlterReplicaLogDirsResponse:
    """Errors are per partition, like those of Kafka's ReplicaManager.alterReplicaLogDirs."""
    codes: dict[str, list[e.AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        is_here = directory.path == ctx.settings.data_directory
        for topic in directory.topics:
            for index in topic.partitions:
                code = ErrorCode.log_dir_not_found
                if is_here:
                    is_hosted = (topic.name, index) in ctx.hosted.partitions
                    code = ErrorCode.none if is_hosted else ErrorCode.replica_not_available
                codes.setdefault(topic.name, []).append(_result(index, code))
    return _answer(codes)


def refuse(
    request: e.AlterReplicaLogDirsRequest, error: KafkaError
) -> e.AlterReplicaLogDirsResponse:
    """The answer when the whole request is refused."""
    codes: dict[str, list[e.AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            results = [_result(index, error.code) for index in topic.partitions]
            codes.setdefault(topic.name, []).extend(results)
    return _answer(codes)


def _result(index: int, code: ErrorCode) -> e.AlterReplicaLogDirPartitionResult:
    return e.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)


def _answer(
    codes: dict[str, list[e.AlterReplicaLogDirPartitionResult]],
) -> e.AlterReplicaLogDirsResponse:
    results = tuple(
        e.AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(parts))
        for name, parts in codes.items()
    )
    return e.AlterReplicaLogDirsResponse(results=results)
