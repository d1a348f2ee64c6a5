"""DescribeConfigs (key 32): topics, groups, and this broker's own read-only values (KIP-133,
KIP-226).

A topic's or group's value is its own, or that of the broker's file if it differs from Kafka's
default, or the default: the source field shows which. Broker settings come from its file, where
they differ from Kafka's defaults, and are read-only; `shared/broker_configs.py` lists them.
"""

from josefine_broker.api.shared.altering import BROKER, GROUP, TOPIC, without_configs
from josefine_broker.api.shared.broker_configs import KAFKA_DEFAULTS, ShownConfig, broker_configs
from josefine_broker.api.shared.topics import check_name
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.groups.group_configs import KEYS, normal
from josefine_broker.engine.groups.group_configs import shown as shown_of_groups
from josefine_broker.engine.metadata.topic_config import (
    TOPIC_CONFIGS,
    ConfigType,
    TopicSettings,
    described,
    shown,
)
from josefine_broker.wire.entities import describe_configs as e

ADMIN_ADDRESS = "admin.address"

SOURCE_TOPIC, SOURCE_BROKER_FILE, SOURCE_DEFAULT, SOURCE_GROUP = 1, 4, 5, 8


def handle(
    ctx: Context, info: RequestInfo, request: e.DescribeConfigsRequest
) -> e.DescribeConfigsResponse:
    """The settings of each named resource; errors are per resource."""
    results = []
    for resource in request.resources:
        try:
            results.append(_describe(ctx, resource, request))
        except KafkaError as error:
            results.append(_failed(resource, error))
    return e.DescribeConfigsResponse(results=tuple(results))


def refuse(request: e.DescribeConfigsRequest, error: KafkaError) -> e.DescribeConfigsResponse:
    """The answer when the whole request is refused."""
    results = tuple(_failed(resource, error) for resource in request.resources)
    return e.DescribeConfigsResponse(results=results)


def source_of(defaults: TopicSettings, name: str, is_set: bool) -> int:
    """The source of a topic's value (DescribeConfigs' numbers)."""
    if is_set:
        return SOURCE_TOPIC
    ours = shown(defaults)[name]
    return SOURCE_DEFAULT if ours == KAFKA_DEFAULTS[name] else SOURCE_BROKER_FILE


def _describe(
    ctx: Context, resource: e.DescribeConfigsResource, request: e.DescribeConfigsRequest
) -> e.DescribeConfigsResult:
    if resource.resource_type == TOPIC:
        configs = _topic_configs(ctx, resource.resource_name, request)
    elif resource.resource_type == BROKER:
        configs = _broker_configs(ctx, resource.resource_name, request)
        if ADMIN_ADDRESS in (resource.configuration_keys or ()):
            configs.append(_admin_address(ctx))
    elif resource.resource_type == GROUP:
        configs = _group_configs(ctx, resource.resource_name, request)
    else:
        raise without_configs(resource.resource_type)
    wanted = resource.configuration_keys
    return e.DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(each for each in configs if not wanted or each.name in wanted),
    )


def _topic_configs(
    ctx: Context, name: str, request: e.DescribeConfigsRequest
) -> list[e.DescribeConfigsResourceResult]:
    check_name(name)
    topic = ctx.image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"no topic '{name}'")
    own = {key for key, _ in topic.config}
    topic_defaults = ctx.settings.defaults_of(name)
    values = described(topic.config, topic_defaults)
    defaults = shown(topic_defaults)
    results = []
    for key in TOPIC_CONFIGS:
        source = source_of(topic_defaults, key.name, key.name in own)
        synonyms: list[e.DescribeConfigsSynonym] = []
        if request.include_synonyms:  # the most specific first, as in Kafka
            if source == SOURCE_TOPIC:
                synonyms.append(_synonym(key.name, values[key.name], SOURCE_TOPIC))
            if defaults[key.name] != KAFKA_DEFAULTS[key.name]:
                synonyms.append(_synonym(key.broker_name, defaults[key.name], SOURCE_BROKER_FILE))
            if key.broker_name:
                synonyms.append(_synonym(key.broker_name, KAFKA_DEFAULTS[key.name], SOURCE_DEFAULT))
        results.append(
            e.DescribeConfigsResourceResult(
                name=key.name,
                value=values[key.name],
                config_source=source,
                synonyms=tuple(synonyms),
                config_type=key.type.value,
                documentation=key.meaning if request.include_documentation else None,
            )
        )
    return results


def _group_configs(
    ctx: Context, group_id: str, request: e.DescribeConfigsRequest
) -> list[e.DescribeConfigsResourceResult]:
    if not group_id:
        raise KafkaError(ErrorCode.invalid_request, "a group id must not be empty")
    own = dict(ctx.image.group_configs.get(group_id, ()))
    here = shown_of_groups(ctx.settings.offsets.groups)
    results = []
    for name in sorted(KEYS):
        key, value = KEYS[name], here[name]
        default_name = key.broker_name if key.has_broker_config else name
        # The most specific first, as in Kafka.
        synonyms = [_synonym(default_name, key.default, SOURCE_DEFAULT)]
        if value != key.default:
            synonyms.insert(0, _synonym(key.broker_name, value, SOURCE_BROKER_FILE))
        if name in own:
            value = normal(name, own[name])
            synonyms.insert(0, _synonym(name, value, SOURCE_GROUP))
        results.append(
            e.DescribeConfigsResourceResult(
                name=name,
                value=value,
                config_source=synonyms[0].source,
                synonyms=tuple(synonyms) if request.include_synonyms else (),
                config_type=key.type.value,
                documentation=key.meaning if request.include_documentation else None,
            )
        )
    return results


def _synonym(name: str, value: str, source: int) -> e.DescribeConfigsSynonym:
    return e.DescribeConfigsSynonym(name=name, value=value, source=source)


def _broker_configs(
    ctx: Context, name: str, request: e.DescribeConfigsRequest
) -> list[e.DescribeConfigsResourceResult]:
    if name not in ("", str(ctx.broker_id)):
        raise KafkaError(ErrorCode.invalid_request, f"this is broker {ctx.broker_id}, not '{name}'")
    return [
        e.DescribeConfigsResourceResult(
            name=each.name,
            value=each.value,
            read_only=True,
            config_source=SOURCE_DEFAULT if each.value == each.default else SOURCE_BROKER_FILE,
            synonyms=_broker_synonyms(each) if request.include_synonyms else (),
            config_type=each.type.value,
        )
        for each in sorted(broker_configs(ctx))
    ]


def _admin_address(ctx: Context) -> e.DescribeConfigsResourceResult:
    """The address of health and metrics, as this broker has registered it. Commands find it so;
    tools that list all configurations do not see it."""
    registered = ctx.image.brokers.get(ctx.broker_id)
    return e.DescribeConfigsResourceResult(
        name=ADMIN_ADDRESS,
        value=None if registered is None else registered.admin,
        read_only=True,
        config_source=SOURCE_BROKER_FILE,
        synonyms=(),
        config_type=ConfigType.STRING.value,
    )


def _broker_synonyms(config: ShownConfig) -> tuple[e.DescribeConfigsSynonym, ...]:
    found = []
    if config.value != config.default and config.value is not None:
        found.append(_synonym(config.name, config.value, SOURCE_BROKER_FILE))
    if config.default is not None:
        found.append(_synonym(config.name, config.default, SOURCE_DEFAULT))
    return tuple(found)


def _failed(resource: e.DescribeConfigsResource, error: KafkaError) -> e.DescribeConfigsResult:
    return e.DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )
