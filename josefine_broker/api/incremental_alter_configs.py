"""IncrementalAlterConfigs (key 44, KIP-339): sets, deletes, appends to, subtracts from a config."""

from collections import Counter
from collections.abc import Callable, Iterable

from josefine_broker.api.shared.altering import Resource, alter_resources, results
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.groups.group_configs import check
from josefine_broker.engine.metadata.changes import AlterGroupConfig, AlterTopicConfig
from josefine_broker.engine.metadata.image import TopicEntry
from josefine_broker.engine.metadata.topic_config import (
    check_config,
    check_together,
    is_list,
    shown,
)
from josefine_broker.wire.entities import incremental_alter_configs as e

SET, DELETE, APPEND, SUBTRACT = range(4)


def handle(ctx: Context, info: RequestInfo, request: e.IncrementalAlterConfigsRequest) -> object:
    """Change the configuration of each named topic and group; errors are per resource. A broker has
    no stored settings, so deleting any of them succeeds."""
    return alter_resources(
        ctx,
        [Resource(each.resource_type, each.resource_name) for each in request.resources],
        lambda at, topic: _change(ctx, topic, request.resources[at].configs),
        lambda at, group_id: _group_change(ctx, group_id, request.resources[at].configs),
        lambda at: [
            (each.name, each.value)
            for each in request.resources[at].configs
            if each.config_operation != DELETE
        ],
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
    def taken(config: e.AlterableConfig) -> str:
        value = _value(config)
        if config.config_operation in (APPEND, SUBTRACT):
            value = _edited_list(ctx, topic, config, value)
        elif config.config_operation != SET:
            raise KafkaError(ErrorCode.invalid_request, f"operation {config.config_operation}")
        check_config(config.name, value)
        return value

    assign, remove = _edits(configs, taken)
    kept = {name: value for name, value in topic.config if name not in remove}
    check_together((kept | assign).items(), ctx.settings.topic_defaults)
    return AlterTopicConfig(
        topic_id=topic.topic_id, assign=tuple(assign.items()), remove=tuple(remove)
    )


def _group_change(
    ctx: Context, group_id: str, configs: tuple[e.AlterableConfig, ...]
) -> AlterGroupConfig:
    def taken(config: e.AlterableConfig) -> str:
        if config.config_operation in (APPEND, SUBTRACT):
            raise KafkaError(ErrorCode.invalid_config, f"'{config.name}' is not a list")
        if config.config_operation != SET:
            raise KafkaError(ErrorCode.invalid_request, f"operation {config.config_operation}")
        return _value(config)

    assign, remove = _edits(configs, taken)
    # As a whole: a session timeout must be above the heartbeat interval that was set before.
    known = dict(ctx.image.group_configs.get(group_id, ()))
    kept = {name: value for name, value in known.items() if name not in remove}
    check((kept | assign).items(), ctx.settings.offsets.groups)
    return AlterGroupConfig(group_id=group_id, assign=tuple(assign.items()), remove=tuple(remove))


def _edits(
    configs: tuple[e.AlterableConfig, ...], taken: Callable[[e.AlterableConfig], str]
) -> tuple[dict[str, str], list[str]]:
    """(the values to set, the names to remove). `taken`: the new value of a config that is not
    removed. Raises KafkaError."""
    repeated = [name for name, times in Counter(c.name for c in configs).items() if times > 1]
    if repeated:
        raise KafkaError(ErrorCode.invalid_request, f"'{repeated[0]}' is given more than once")
    assign: dict[str, str] = {}
    remove = []
    for config in configs:
        if config.config_operation == DELETE:
            remove.append(config.name)
        else:
            assign[config.name] = taken(config)
    return assign, remove


def _value(config: e.AlterableConfig) -> str:
    if config.value is None:
        raise KafkaError(ErrorCode.invalid_request, f"'{config.name}' has no value")
    return config.value


def _edited_list(ctx: Context, topic: TopicEntry, config: e.AlterableConfig, value: str) -> str:
    """The list after the operation: like Kafka, which compares the elements as they are, so that
    `a` does not remove ` a `, and appends an empty element for an empty text."""
    if not is_list(config.name):
        raise KafkaError(ErrorCode.invalid_config, f"'{config.name}' is not a list")
    own = dict(topic.config).get(config.name)
    now = shown(ctx.settings.defaults_of(topic.name))[config.name] if own is None else own
    parts = [part for part in now.split(",") if part]
    for part in _parts(value):
        if config.config_operation == APPEND and part not in parts:
            parts.append(part)
        elif config.config_operation == SUBTRACT and part in parts:
            parts.remove(part)
    return ",".join(parts)


def _parts(text: str) -> list[str]:
    """Like Java's `split(",")`: empty parts at the end are dropped, except for an empty text."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts if text == "" or parts != [""] else []


def _answer(
    outcomes: Iterable[tuple[Resource, KafkaError | None]],
) -> e.IncrementalAlterConfigsResponse:
    return e.IncrementalAlterConfigsResponse(
        responses=results(outcomes, e.AlterConfigsResourceResponse)
    )
