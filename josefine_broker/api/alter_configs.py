"""AlterConfigs (key 33, KIP-133): replaces a topic's whole configuration; unnamed keys are
removed."""

from collections import Counter
from collections.abc import Iterable

from josefine_broker.api.shared.altering import Resource, alter_topics, results
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.changes import AlterTopicConfig
from josefine_broker.engine.metadata.image import TopicEntry
from josefine_broker.engine.metadata.topic_config import check_configs
from josefine_broker.wire.entities import alter_configs as e


def handle(ctx: Context, info: RequestInfo, request: e.AlterConfigsRequest) -> object:
    """Replace the configuration of each topic named."""
    return alter_topics(
        ctx,
        [Resource(each.resource_type, each.resource_name) for each in request.resources],
        lambda at, topic: _change(ctx, topic, request.resources[at]),
        lambda at: [(each.name, each.value) for each in request.resources[at].configs],
        _answer,
        validate_only=request.validate_only,
    )


def refuse(request: e.AlterConfigsRequest, error: KafkaError) -> e.AlterConfigsResponse:
    """The answer when the whole request is refused."""
    resources = (Resource(each.resource_type, each.resource_name) for each in request.resources)
    return _answer((resource, error) for resource in resources)


def _change(ctx: Context, topic: TopicEntry, resource: e.AlterConfigsResource) -> AlterTopicConfig:
    for name, times in Counter(config.name for config in resource.configs).items():
        if times > 1:
            raise KafkaError(ErrorCode.invalid_request, f"'{name}' is given more than once")
    for config in resource.configs:
        if config.value is None:
            raise KafkaError(ErrorCode.invalid_request, f"'{config.name}' has no value")
    assign = check_configs(
        ((config.name, config.value) for config in resource.configs), ctx.settings.topic_defaults
    )
    named = {name for name, _ in assign}
    remove = tuple(name for name, _ in topic.config if name not in named)
    return AlterTopicConfig(topic_id=topic.topic_id, assign=assign, remove=remove)


def _answer(outcomes: Iterable[tuple[Resource, KafkaError | None]]) -> e.AlterConfigsResponse:
    return e.AlterConfigsResponse(responses=results(outcomes, e.AlterConfigsResourceResponse))
