"""AlterPartitionReassignments (key 45, KIP-455): new replicas of partitions, or null to cancel.

One proposal for the whole request; each partition's answer is its state in the image afterwards.
The move itself continues after the answer: replicas copy, and the controller completes it.
"""

from collections import Counter
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.changes import ReassignItem, ReassignPartitions
from josefine_broker.engine.metadata.partition_limit import PartitionLimit
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.metadata.reassignment import check_target, retarget
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.wire.entities import alter_partition_reassignments as e


class _Wish(NamedTuple):
    topic: str
    partition: int
    outcome: ReassignItem | KafkaError
    target: tuple[int, ...] = ()
    """The replicas of the partition after the move, or after a cancellation."""


def handle(
    ctx: Context, info: RequestInfo, request: e.AlterPartitionReassignmentsRequest
) -> object:
    """Start, replace or cancel the move of each named partition; an invalid one is refused
    alone."""
    deadline_ms = ctx.clock.monotonic_ms() + request.timeout_ms
    wishes = _wishes(ctx, request)
    items = tuple(each.outcome for each in wishes if isinstance(each.outcome, ReassignItem))
    proposals = [submit_change(ctx, ReassignPartitions(items=items), deadline_ms)] if items else []

    def build() -> e.AlterPartitionReassignmentsResponse:
        return _answer(request, [(wish, _error(ctx, wish, proposals)) for wish in wishes])

    return answer_when_settled(ctx, proposals, deadline_ms, build)


def refuse(
    request: e.AlterPartitionReassignmentsRequest, error: KafkaError
) -> e.AlterPartitionReassignmentsResponse:
    """The answer when the whole request is refused."""
    return e.AlterPartitionReassignmentsResponse(
        error_code=error.code, error_message=error.message or None, responses=()
    )


def _wishes(ctx: Context, request: e.AlterPartitionReassignmentsRequest) -> list[_Wish]:
    times = Counter(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    wishes = []
    limit = ctx.partition_limit()
    for topic in request.topics:
        for wanted in topic.partitions:
            index = wanted.partition_index
            try:
                if times[topic.name, index] > 1:
                    raise KafkaError(
                        ErrorCode.invalid_request, "the partition is named more than once"
                    )
                keeps_count = not request.allow_replication_factor_change
                wishes.append(_wish(ctx, topic.name, wanted, limit, keeps_count=keeps_count))
            except KafkaError as error:
                wishes.append(_Wish(topic.name, index, error.without_frames()))
    return wishes


def _wish(
    ctx: Context,
    name: str,
    wanted: e.ReassignablePartition,
    limit: PartitionLimit,
    *,
    keeps_count: bool,
) -> _Wish:
    index, target = wanted.partition_index, wanted.replicas
    entry = ctx.image.partition(name, index)
    if entry is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"no partition {name}-{index}")
    if target is not None:
        check_target(target, ctx.image.brokers)
        if keeps_count and len(target) != len(entry.target):  # KIP-860
            raise KafkaError(
                ErrorCode.invalid_replication_factor,
                f"the partition has {len(entry.target)} replicas and would have {len(target)}",
            )
        limit.take([[each for each in target if each not in entry.replicas]])
    moving = retarget(entry, target)
    item = ReassignItem(ctx.image.topics[name].topic_id, index, target)
    return _Wish(name, index, item, moving.target)


def _error(ctx: Context, wish: _Wish, proposals: list[Proposal]) -> KafkaError | None:
    item = wish.outcome
    if isinstance(item, KafkaError):
        return item
    for proposal in proposals:
        if proposal.error is not None:
            return proposal.error
    topic = ctx.image.topic_by_id(item.topic_id)
    entry = None if topic is None else topic.partitions[item.partition]
    if entry is None:
        return KafkaError(ErrorCode.unknown_topic_or_partition, "the topic was deleted meanwhile")
    if entry.target == wish.target:
        return None
    return KafkaError(
        ErrorCode.invalid_replica_assignment,
        "the partition changed meanwhile: list it and try again",
    )


def _answer(
    request: e.AlterPartitionReassignmentsRequest,
    outcomes: list[tuple[_Wish, KafkaError | None]],
) -> e.AlterPartitionReassignmentsResponse:
    by_topic: dict[str, list[e.ReassignablePartitionResponse]] = {}
    for wish, error in outcomes:
        by_topic.setdefault(wish.topic, []).append(
            e.ReassignablePartitionResponse(partition_index=wish.partition)
            if error is None
            else e.ReassignablePartitionResponse(
                partition_index=wish.partition,
                error_code=error.code,
                error_message=error.message or None,
            )
        )
    return e.AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=tuple(
            e.ReassignableTopicResponse(name=name, partitions=tuple(partitions))
            for name, partitions in by_topic.items()
        ),
    )
