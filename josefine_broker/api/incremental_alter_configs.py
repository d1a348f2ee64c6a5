"""IncrementalAlterConfigs (key 44, KIP-339): set, delete, append to, subtract from a config."""

from collections import Counter
from collections.abc import Iterable

from josefine_broker.api.shared.altering import Resource, alter_topics, results
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.changes import AlterTopicConfig
from josefine_broker.engine.metadata.image import TopicEntry
from josefine_broker.engine.metadata.topic_config import check_config, is_list, resolve, shown
from josefine_broker.wire.entities import incremental_alter_configs as e

SET, DELETE, APPEND, SUBTRACT = range(4)


def handle(ctx: Context, info: RequestInfo, request: e.IncrementalAlterConfigsRequest) -> object:
    """Change the configuration of each topic named; errors are per resource. Of a broker nothing
    is set, so that all may be deleted."""
    return alter_topics(
        ctx,
        [Resource(each.resource_type, each.resource_name) for each in request.resources],
        lambda at, topic: _change(ctx, topic, request.resources[at].configs),
        lambda at: (c.name for c in request.resources[at].configs if c.config_operation != DELETE),
        _answer,
        validate_only=request.validate_only,
    )


def refuse(
    request: e.IncrementalAlterConfigsRequest, error: KafkaError
) -> e.IncrementalAlterConfigsResponse:
    """The answer when the whole request is refused."""
    resources = (Resource(each.resource_type, each.resource_name) for each in request.resources)
    return _answer((resource, error) for resource in resources)


def _change(
    ctx: Context, topic: TopicEntry, configs: tuple[e.AlterableConfig, ...]
) -> AlterTopicConfig:
    repeated = [name for name, times in Counter(c.name for c in configs).items() if times > 1]
    if repeated:
        raise KafkaError(ErrorCode.invalid_request, f"'{repeated[0]}' is given more than once")
    assign: dict[str, str] = {}
    remove = []
    for config in configs:
        if config.config_operation == DELETE:
            remove.append(config.name)
            continue
        value = config.value
        if config.config_operation in (APPEND, SUBTRACT):
            value = _edited_list(ctx, topic, config)
        elif config.config_operation != SET:
            raise KafkaError(ErrorCode.invalid_request, f"operation {config.config_operation}")
        check_config(config.name, value)
        assert value is not None
        assign[config.name] = value
    return AlterTopicConfig(
        topic_id=topic.topic_id, assign=tuple(assign.items()), remove=tuple(remove)
    )


def _edited_list(ctx: Context, topic: TopicEntry, config: e.AlterableConfig) -> str:
    if not is_list(config.name):
        raise KafkaError(ErrorCode.invalid_config, f"'{config.name}' is not a list")
    now = shown(resolve(topic.config, ctx.settings.defaults_of(topic.name)))[config.name].split(",")
    named = [part.strip() for part in (config.value or "").split(",")]
    if config.config_operation == APPEND:
        return ",".join(now + [part for part in named if part not in now])
    return ",".join(part for part in now if part not in named)


def _answer(
    outcomes: Iterable[tuple[Resource, KafkaError | None]],
) -> e.IncrementalAlterConfigsResponse:
    return e.IncrementalAlterConfigsResponse(
        responses=results(outcomes, e.AlterConfigsResourceResponse)
    )
