"""Special access rules of topics: Produce, Fetch, Metadata, creation, configs.

A topic that a client may not describe is hidden from it; a request by name gets the same code
whether the topic exists or not.
"""

from dataclasses import replace
from typing import Any

from josefine_broker.api.rules.asker import After, Asker, Refuse
from josefine_broker.api.rules.kinds import parted, split
from josefine_broker.base.acls import Operation, ResourceType
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.metadata.topic_config import resolve
from josefine_broker.engine.purgatory.purgatory import Hangup
from josefine_broker.wire.entities import create_topics, describe_configs, metadata
from josefine_broker.wire.entities.describe_topic_partitions import TopicRequest
from josefine_broker.wire.fetch import FetchRequest
from josefine_broker.wire.produce import ProduceRequest, ProduceResponse, ProduceTopic

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
KINDS_OF_CONFIGS = {2: ResourceType.TOPIC, 32: ResourceType.GROUP}
"""Resources with configurations of their own; others are brokers."""


def produce(
    asker: Asker, request: ProduceRequest, refuse: Refuse
) -> tuple[ProduceRequest, After | None]:
    """WRITE on each topic, and on the transactional id. acks=0 has no answer: as after any other
    refusal the connection is closed."""
    transactional_id = request.transactional_id
    if transactional_id is not None:
        kind = ResourceType.TRANSACTIONAL_ID
        if not asker.may(Operation.WRITE, kind, transactional_id):
            raise asker.denied(Operation.WRITE, kind)
    flags = [
        asker.may_topic(Operation.WRITE, topic) or _is_letter(asker, topic)
        for topic in request.topics
    ]
    if all(flags):
        return request, None
    both = list(zip(request.topics, flags, strict=True))
    allowed = request._replace(topics=tuple(topic for topic, flag in both if flag))
    denied = request._replace(topics=tuple(topic for topic, flag in both if not flag))
    refused = refuse(denied, asker.denied(Operation.WRITE, TOPIC))

    def after(answer: ProduceResponse | None) -> Any:
        if answer is None or refused is None:
            return Hangup("refused, and acks=0 has no answer")
        return answer._replace(topics=[*answer.topics, *refused.topics])

    return allowed, after


def _is_letter(asker: Asker, topic: ProduceTopic) -> bool:
    """Whether a broker writes to a topic that takes dead letters of groups: that config of the
    topic is the permission (KIP-1191)."""
    ctx = asker.ctx
    if asker.info.listener in ctx.clients.listeners_apart:
        return False
    entry = ctx.image.topics.get(ctx.topic_name(topic.name, topic.topic_id) or "")
    if entry is None or not asker.may_cluster(Operation.CLUSTER_ACTION):
        return False
    return resolve(entry.config, ctx.settings.defaults_of(entry.name)).takes_dead_letters


def fetch(asker: Asker, request: FetchRequest, refuse: Refuse) -> tuple[FetchRequest, After | None]:
    """Followers are brokers. READ of consumers is checked when a partition is read: a session has
    partitions that the request does not name."""
    if request.replica_id >= 0 and not asker.may_cluster(Operation.CLUSTER_ACTION):
        raise asker.denied(Operation.CLUSTER_ACTION, CLUSTER)
    return request, None


def metadata_topics(
    asker: Asker, request: metadata.MetadataRequest, refuse: Refuse
) -> tuple[metadata.MetadataRequest, After | None]:
    """DESCRIBE on each topic; CREATE on those that would be created."""
    refused: tuple[metadata.MetadataResponseTopic, ...] = ()
    if request.topics is not None:
        flags = [_may_ask_for(asker, topic, request) for topic in request.topics]
        if not all(flags):
            request, denied = parted(request, "topics", flags)
            refused = refuse(denied, asker.denied(Operation.DESCRIBE, TOPIC)).topics
    shows_operations = request.include_topic_authorized_operations
    if not refused and request.topics is not None and not shows_operations:
        return request, None

    def after(answer: metadata.MetadataResponse) -> metadata.MetadataResponse:
        found = (each for each in answer.topics if _sees(asker, each))
        shown = (_with_operations(asker, each) if shows_operations else each for each in found)
        return replace(answer, topics=(*shown, *refused))

    return request, after


def _may_ask_for(
    asker: Asker, topic: metadata.MetadataRequestTopic, request: metadata.MetadataRequest
) -> bool:
    if not asker.may_topic(Operation.DESCRIBE, topic):
        return False
    name, ctx = topic.name, asker.ctx
    if name is None or topic.topic_id is not None or name in ctx.image.topics:
        return True
    makes = request.allow_auto_topic_creation and ctx.settings.auto_create_topics
    return not makes or may_create(asker, name)


def _sees(asker: Asker, topic: metadata.MetadataResponseTopic) -> bool:
    return topic.name is None or asker.may(Operation.DESCRIBE, TOPIC, topic.name)


def _with_operations(
    asker: Asker, topic: metadata.MetadataResponseTopic
) -> metadata.MetadataResponseTopic:
    if topic.name is None:
        return topic
    return replace(topic, topic_authorized_operations=asker.operations(TOPIC, topic.name))


def topic_partitions(asker: Asker, request: Any, refuse: Refuse) -> tuple[Any, After | None]:
    """DescribeTopicPartitions: DESCRIBE on each topic; if none is named, all visible ones."""
    if not request.topics:
        names = [n for n in asker.ctx.image.topics if asker.may(Operation.DESCRIBE, TOPIC, n)]
        if not names:
            return None, lambda _: refuse(request, asker.denied(Operation.DESCRIBE, TOPIC))
        wanted = tuple(TopicRequest(name=name) for name in names)
        return replace(request, topics=wanted), None
    flags = [asker.may(Operation.DESCRIBE, TOPIC, topic.name) for topic in request.topics]
    left, after = split(
        asker, request, refuse, flags, "topics", "topics", Operation.DESCRIBE, TOPIC
    )
    return left, after if request.cursor is None else None  # refusals are on the first page


def may_create(asker: Asker, name: str) -> bool:
    """CREATE on the cluster includes CREATE on every topic."""
    return asker.may_cluster(Operation.CREATE) or asker.may(Operation.CREATE, TOPIC, name)


def created_topics(
    asker: Asker, request: create_topics.CreateTopicsRequest, refuse: Refuse
) -> tuple[create_topics.CreateTopicsRequest, After | None]:
    """CREATE on each topic; without DESCRIBE_CONFIGS the answer has no configs (KIP-525)."""
    flags = [may_create(asker, topic.name) for topic in request.topics]
    left, joined = split(asker, request, refuse, flags, "topics", "topics", Operation.CREATE, TOPIC)

    def after(answer: create_topics.CreateTopicsResponse) -> create_topics.CreateTopicsResponse:
        topics = tuple(
            each
            if each.error_code or asker.may(Operation.DESCRIBE_CONFIGS, TOPIC, each.name)
            else _without_configs(each)
            for each in answer.topics
        )
        answer = replace(answer, topics=topics)
        return answer if joined is None else joined(answer)

    return left, after


def _without_configs(
    topic: create_topics.CreatableTopicResult,
) -> create_topics.CreatableTopicResult:
    return replace(
        topic,
        topic_config_error_code=ErrorCode.topic_authorization_failed.value,
        num_partitions=-1,
        replication_factor=-1,
        configs=None,
    )


def configs(operation: Operation, answers: str) -> Any:
    """Resources of DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: topics, groups,
    otherwise the cluster's brokers."""

    def step(asker: Asker, request: Any, refuse: Refuse) -> tuple[Any, After | None]:
        kinds = [KINDS_OF_CONFIGS.get(each.resource_type, CLUSTER) for each in request.resources]
        flags = [
            asker.may_cluster(operation)
            if kind is CLUSTER
            else asker.may(operation, kind, each.resource_name)
            for each, kind in zip(request.resources, kinds, strict=True)
        ]
        if all(flags):
            return request, None
        left, denied = parted(request, "resources", flags)
        # Each kind has its own code for what is refused.
        told: list[describe_configs.DescribeConfigsResult] = []
        for kind in (TOPIC, ResourceType.GROUP, CLUSTER):
            error = asker.denied(operation, kind)
            ours = [
                KINDS_OF_CONFIGS.get(each.resource_type, CLUSTER) is kind
                for each in denied.resources
            ]
            told += getattr(refuse(parted(denied, "resources", ours)[0], error), answers)

        def after(answer: Any) -> Any:
            return replace(answer, **{answers: (*getattr(answer, answers), *told)})

        return left, after

    return step
