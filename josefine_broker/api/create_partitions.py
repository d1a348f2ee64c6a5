"""CreatePartitions (key 37, KIP-195): adds partitions to topics. One proposal per topic."""

from collections import Counter

from josefine_broker.api.shared.topics import away_racks, live_racks, offline_among
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.controller.placement import Racks, check_assignment, place, place_of
from josefine_broker.engine.metadata.changes import CreatePartitions, Replicas
from josefine_broker.engine.metadata.image import TopicEntry
from josefine_broker.engine.metadata.partition_limit import PartitionLimit
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.wire.entities import create_partitions as e


def handle(ctx: Context, info: RequestInfo, request: e.CreatePartitionsRequest) -> object:
    """Grow each named topic; an invalid request for one is refused alone."""
    deadline_ms = ctx.clock.monotonic_ms() + request.timeout_ms
    times = Counter(topic.name for topic in request.topics)
    errors: dict[str, KafkaError] = {}
    proposals: dict[str, Proposal] = {}
    limit = ctx.partition_limit()
    for topic in request.topics:
        try:
            if times[topic.name] > 1:
                raise KafkaError(ErrorCode.invalid_request, "the topic is named more than once")
            change = _change(ctx, topic, limit)
            if not request.validate_only:
                proposals[topic.name] = submit_change(ctx, change, deadline_ms)
        except KafkaError as error:
            errors[topic.name] = error.without_frames()

    def build() -> e.CreatePartitionsResponse:
        for name, proposal in proposals.items():
            if proposal.error is not None:
                errors[name] = proposal.error
        results = tuple(_result(name, errors.get(name)) for name in times)
        return e.CreatePartitionsResponse(results=results)

    return answer_when_settled(ctx, list(proposals.values()), deadline_ms, build)


def refuse(request: e.CreatePartitionsRequest, error: KafkaError) -> e.CreatePartitionsResponse:
    """The answer when the whole request is refused."""
    results = tuple(_result(topic.name, error) for topic in request.topics)
    return e.CreatePartitionsResponse(results=results)


def _change(
    ctx: Context, wanted: e.CreatePartitionsTopic, limit: PartitionLimit
) -> CreatePartitions:
    topic = ctx.image.topics.get(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"no topic '{wanted.name}'")
    if topic.is_internal:
        raise KafkaError(ErrorCode.invalid_request, f"'{topic.name}' is the broker's own topic")
    have = len(topic.partitions)
    if wanted.count <= have:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            f"topic '{topic.name}' has {have} partitions, {wanted.count} is not more",
        )
    live = live_racks(ctx)
    replicas = _replicas(ctx, live, topic, wanted)
    limit.take(replicas)
    return CreatePartitions(
        topic_id=topic.topic_id,
        first_partition=have,
        replicas=replicas,
        offline=offline_among(live, replicas),
    )


def _replicas(
    ctx: Context, live: Racks, topic: TopicEntry, wanted: e.CreatePartitionsTopic
) -> Replicas:
    have = len(topic.partitions)
    # Replicas after the current moves: replicas that a reassignment removes do not count.
    factor = len(topic.partitions[0].target)
    if wanted.assignments is None:
        # The first leader shows where the round-robin of leaders started, if that broker still
        # exists.
        start = place_of(live, topic.partitions[0].replicas[0])
        return place(
            live,
            wanted.count - have,
            factor,
            start=start,
            first_partition=have,
            away=away_racks(ctx),
        )
    if len(wanted.assignments) != wanted.count - have:
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            f"{len(wanted.assignments)} assignments for {wanted.count - have} new partitions",
        )
    assignment = {have + at: each.broker_ids for at, each in enumerate(wanted.assignments)}
    replicas = check_assignment(ctx.image.brokers, live, assignment, first_partition=have)
    if len(replicas[0]) != factor:
        raise KafkaError(
            ErrorCode.invalid_replica_assignment, f"the topic has {factor} replicas per partition"
        )
    return replicas


def _result(name: str, error: KafkaError | None) -> e.CreatePartitionsTopicResult:
    if error is None:
        return e.CreatePartitionsTopicResult(name=name)
    return e.CreatePartitionsTopicResult(
        name=name, error_code=error.code, error_message=error.message or None
    )
