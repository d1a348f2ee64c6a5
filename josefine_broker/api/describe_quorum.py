"""DescribeQuorum (key 55, KIP-595): the voters of the metadata quorum, as its leader sees them.

Our Raft has no topic, so it is presented as Kafka's `__cluster_metadata-0`: a term as leader epoch,
block heights as offsets (ends are exclusive: a block at height 7 appears as 8). Only the leader
knows how far the others are, so another broker asks it; without its answer the result is
NOT_LEADER_OR_FOLLOWER, with the leader if known.
"""

from josefine_broker.api.shared.forwarding import forward
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.image import METADATA_TOPIC
from josefine_broker.engine.ports import QuorumMember, QuorumView
from josefine_broker.wire.entities import describe_quorum as e

EPOCH_MAX = 2**31 - 1
"""The limit of Kafka's protocol; our term is higher only after a member's memory failure."""
LISTENER = "CONTROLLER"
"""The listener name that Kafka's tools use for quorum members."""


def handle(ctx: Context, info: RequestInfo, request: e.DescribeQuorumRequest) -> object:
    """The only partition; any other is unknown."""
    quorum = ctx.ports.quorum
    if quorum is None:
        raise KafkaError(ErrorCode.broker_not_available, "this broker has no Raft to speak of")
    view = quorum.describe()
    answer = _answer(ctx, view, request)
    if view.leader_id == ctx.broker_id:
        return answer
    return forward(ctx, info, request, view.leader_id, answer)


def _answer(
    ctx: Context, view: QuorumView, request: e.DescribeQuorumRequest
) -> e.DescribeQuorumResponse:
    leads = view.leader_id == ctx.broker_id
    return e.DescribeQuorumResponse(
        topics=tuple(
            e.TopicData(
                topic_name=topic.topic_name,
                partitions=tuple(
                    _partition(view, leads, topic.topic_name, each.partition_index)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
        nodes=tuple(
            _node(ctx, member.broker_id)
            for member in sorted((*view.voters, *view.observers), key=lambda each: each.broker_id)
        ),
    )


def refuse(request: e.DescribeQuorumRequest, error: KafkaError) -> e.DescribeQuorumResponse:
    """The answer when the whole request is refused."""
    return e.DescribeQuorumResponse(
        error_code=error.code, error_message=error.message or None, topics=()
    )


def _partition(view: QuorumView, leads: bool, topic: str, index: int) -> e.PartitionData:
    if (topic, index) != (METADATA_TOPIC, 0):
        return e.PartitionData(
            partition_index=index,
            error_code=ErrorCode.unknown_topic_or_partition,
            error_message=f"only {METADATA_TOPIC}-0 has a quorum",
        )
    if not leads:
        return e.PartitionData(
            partition_index=index,
            error_code=ErrorCode.not_leader_or_follower,
            error_message="this broker does not lead the quorum",
            leader_id=view.leader_id,
            leader_epoch=min(view.term, EPOCH_MAX),
        )
    return e.PartitionData(
        partition_index=index,
        leader_id=view.leader_id,
        leader_epoch=min(view.term, EPOCH_MAX),
        high_watermark=_end_of(view.commit_height),
        current_voters=tuple(map(_member, view.voters)),
        observers=tuple(map(_member, view.observers)),
    )


def _member(member: QuorumMember) -> e.ReplicaState:
    return e.ReplicaState(
        replica_id=member.broker_id,
        log_end_offset=_end_of(member.log_end_height),
        last_fetch_timestamp=member.last_fetch_ms,
        last_caught_up_timestamp=member.last_caught_up_ms,
    )


def _end_of(height: int) -> int:
    return -1 if height < 0 else height + 1


def _node(ctx: Context, broker_id: int) -> e.Node:
    broker = ctx.image.brokers.get(broker_id)
    if broker is None or broker.raft is None:
        return e.Node(node_id=broker_id, listeners=())
    at = e.Listener(name=LISTENER, host=broker.raft.host, port=broker.raft.port)
    return e.Node(node_id=broker_id, listeners=(at,))
