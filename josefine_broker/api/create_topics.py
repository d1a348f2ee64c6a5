"""CreateTopics (key 19): one Raft proposal per topic, which carries all its partitions.

-1 means the default (KIP-464), configs in the answer (KIP-525), ids (KIP-516). The answer waits
until the block is applied here, so the topic is usable at once; after a timeout the answer is
REQUEST_TIMED_OUT, and the topic may still be created. The broker creates internal topics itself
when a group needs them: with the wrong partitions or policy, committed offsets would be scattered
or lost.
"""

from collections import Counter

from josefine_broker.api.describe_configs import source_of
from josefine_broker.api.shared.topics import NewNames, check_not_internal, new_topic
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.changes import CreateTopic
from josefine_broker.engine.metadata.partition_limit import PartitionLimit
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.metadata.topic_config import described
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.wire.entities import create_topics as e


def handle(ctx: Context, info: RequestInfo, request: e.CreateTopicsRequest) -> object:
    """Create each named topic; an invalid one is refused alone."""
    deadline_ms = ctx.clock.monotonic_ms() + request.timeout_ms
    times = Counter(topic.name for topic in request.topics)
    changes: dict[str, CreateTopic] = {}
    errors: dict[str, KafkaError] = {}
    names, limit = NewNames(ctx.image), ctx.partition_limit()
    for topic in request.topics:
        try:
            if times[topic.name] > 1:
                raise KafkaError(ErrorCode.invalid_request, "the topic is named more than once")
            changes[topic.name] = _change(ctx, topic, names, limit)
        except KafkaError as error:
            errors[topic.name] = error.without_frames()
    # One proposal per topic: a refusal of one must not undo the others.
    proposals: dict[str, Proposal] = {}
    if not request.validate_only:
        proposals = {name: submit_change(ctx, each, deadline_ms) for name, each in changes.items()}

    def build() -> e.CreateTopicsResponse:
        for name, proposal in proposals.items():
            if proposal.error is not None:
                errors[name] = proposal.error
        results = [
            _failed(name, errors[name])
            if name in errors
            else _created(ctx, changes[name], with_id=not request.validate_only)
            for name in times
        ]
        return e.CreateTopicsResponse(topics=tuple(results))

    return answer_when_settled(ctx, list(proposals.values()), deadline_ms, build)


def refuse(request: e.CreateTopicsRequest, error: KafkaError) -> e.CreateTopicsResponse:
    """The answer when the whole request is refused."""
    topics = tuple(_failed(topic.name, error) for topic in request.topics)
    return e.CreateTopicsResponse(topics=topics)


def _change(
    ctx: Context, topic: e.CreatableTopic, names: NewNames, limit: PartitionLimit
) -> CreateTopic:
    check_not_internal(topic.name)
    assignment = {each.partition_index: each.broker_ids for each in topic.assignments}
    if len(assignment) != len(topic.assignments):
        raise KafkaError(ErrorCode.invalid_replica_assignment, "a partition is assigned twice")
    return new_topic(
        ctx,
        topic.name,
        names,
        limit,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignment=assignment,
        config=[(config.name, config.value) for config in topic.configs],
    )


def _created(ctx: Context, change: CreateTopic, *, with_id: bool) -> e.CreatableTopicResult:
    assigned = {name for name, _ in change.config}
    defaults = ctx.settings.defaults_of(change.name)
    return e.CreatableTopicResult(
        name=change.name,
        topic_id=change.topic_id if with_id else None,
        num_partitions=len(change.replicas),
        replication_factor=len(change.replicas[0]),
        configs=tuple(
            e.CreatableTopicConfigs(
                name=name, value=value, config_source=source_of(defaults, name, name in assigned)
            )
            for name, value in described(change.config, defaults).items()
        ),
    )


def _failed(name: str, error: KafkaError) -> e.CreatableTopicResult:
    return e.CreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message or None, configs=()
    )
