"""AlterConfigs (key 33, KIP-133): replaces a topic's or a group's whole configuration; unnamed keys
are removed."""

from collections.abc import Iterable

from josefine_broker.api.shared.altering import Resource, alter_resources, given, results
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.groups.group_configs import check
from josefine_broker.engine.metadata.changes import AlterGroupConfig, AlterTopicConfig
from josefine_broker.engine.metadata.image import TopicEntry
from josefine_broker.engine.metadata.topic_config import check_configs
from josefine_broker.wire.entities import alter_configs as e


def handle(ctx: Context, info: RequestInfo, request: e.AlterConfigsRequest) -> object:
    """Replace the configuration of each topic and group named."""
    return alter_resources(
        ctx,
        [Resource(each.resource_type, each.resource_name) for each in request.resources],
        lambda at, topic: _change(ctx, topic, request.resources[at]),
        lambda at, group_id: _group_change(ctx, group_id, request.resources[at]),
        lambda at: [(each.name, each.value) for each in request.resources[at].configs],
        _answer,
        validate_only=request.validate_only,
    )


def refuse(request: e.AlterConfigsRequest, error: KafkaError) -> e.AlterConfigsResponse:
    """The answer when the whole request is refused."""
    resources = (Resource(each.resource_type, each.resource_name) for each in request.resources)
    return _answer((resource, error) for resource in resources)


def _change(ctx: Context, topic: TopicEntry, resource: e.AlterConfigsResource) -> AlterTopicConfig:
    configs = given((config.name, config.value) for config in resource.configs)
    assign = check_configs(configs.items(), ctx.settings.topic_defaults)
    named = {name for name, _ in assign}
    remove = tuple(name for name, _ in topic.config if name not in named)
    return AlterTopicConfig(topic_id=topic.topic_id, assign=assign, remove=remove)


def _group_change(
    ctx: Context, group_id: str, resource: e.AlterConfigsResource
) -> AlterGroupConfig:
    assign = given((config.name, config.value) for config in resource.configs)
    check(assign.items(), ctx.settings.offsets.groups)
    known = ctx.image.group_configs.get(group_id, ())
    remove = tuple(name for name, _ in known if name not in assign)
    return AlterGroupConfig(group_id=group_id, assign=tuple(assign.items()), remove=remove)


def _answer(outcomes: Iterable[tuple[Resource, KafkaError | None]]) -> e.AlterConfigsResponse:
    return e.AlterConfigsResponse(responses=results(outcomes, e.AlterConfigsResourceResponse))
