"""Administration of topic and broker configurations (KIP-133, KIP-339): for each value also its
source, and whether it may change while a broker runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from josefine_broker.client.admin import RESOURCE_TOPIC, altered
from josefine_broker.client.effects import ANY_BROKER, CONTROLLER, Call, Operation
from josefine_broker.client.operations import answered_error, ask_until
from josefine_broker.client.session import Session
from josefine_broker.wire import apis
from josefine_broker.wire.entities import describe_configs as d
from josefine_broker.wire.entities import incremental_alter_configs as i

RESOURCE_BROKER, RESOURCE_GROUP = 4, 32
ADMIN_ADDRESS = "admin.address"
"""A broker's HTTP address, described only if it is asked for by this name: Kafka has none."""
SOURCES = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "broker's file",
    5: "default",
    8: "group",
}
"""Names of `config_source`: 2 and 3 are Kafka's dynamic broker settings."""
DEFAULT_SOURCE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValue:
    """One value in effect; None: it is a secret."""

    name: str
    value: str | None
    source: str
    is_default: bool
    may_change: bool
    """While a broker runs."""
    documentation: str | None


def describe_resource(
    session: Session, resource_type: int, name: str, now_ms: int, deadline_ms: int
) -> Operation[list[ConfigValue]]:
    """Configurations sorted by name. A broker reports only its own."""
    request = d.DescribeConfigsRequest(
        resources=(
            d.DescribeConfigsResource(
                resource_type=resource_type, resource_name=name, configuration_keys=None
            ),
        ),
        include_documentation=True,
    )
    attempts = session.start(now_ms, deadline_ms, "describe configs", unknown_is_final=True)
    # Only the broker itself knows its settings; topics are the same on every broker.
    node = int(name) if resource_type == RESOURCE_BROKER else ANY_BROKER
    call = Call(node=node, api_key=apis.DESCRIBE_CONFIGS, request=request)
    response, _ = yield from ask_until(
        attempts,
        call,
        lambda r: answered_error(r.results[0].error_code, r.results[0].error_message),
    )
    values = (
        ConfigValue(
            name=each.name,
            value=each.value,
            source=SOURCES.get(each.config_source, "unknown"),
            is_default=each.config_source == DEFAULT_SOURCE,
            may_change=not each.read_only,
            documentation=each.documentation,
        )
        for each in response.results[0].configs
    )
    return sorted(values, key=lambda each: each.name)


def alter_resource(
    session: Session,
    resource_type: int,
    name: str,
    changes: Mapping[str, str | None],
    now_ms: int,
    deadline_ms: int,
) -> Operation[None]:
    """Name → new value, or None to return to the default; other names stay as they are."""
    request = i.IncrementalAlterConfigsRequest(
        resources=(altered(resource_type, name, changes),), validate_only=False
    )
    attempts = session.start(now_ms, deadline_ms, "alter configs", unknown_is_final=True)
    node = CONTROLLER if resource_type == RESOURCE_TOPIC else ANY_BROKER
    call = Call(node=node, api_key=apis.INCREMENTAL_ALTER_CONFIGS, request=request)
    yield from ask_until(
        attempts,
        call,
        lambda r: answered_error(r.responses[0].error_code, r.responses[0].error_message),
    )


def admin_address(session: Session, now_ms: int, deadline_ms: int) -> Operation[str | None]:
    """The admin address of any broker; None: it has none, or is not one of ours."""
    request = d.DescribeConfigsRequest(
        resources=(
            d.DescribeConfigsResource(
                resource_type=RESOURCE_BROKER,
                resource_name="",
                configuration_keys=(ADMIN_ADDRESS,),
            ),
        ),
    )
    attempts = session.start(now_ms, deadline_ms, "find the admin address")
    call = Call(node=ANY_BROKER, api_key=apis.DESCRIBE_CONFIGS, request=request)
    response, _ = yield from ask_until(
        attempts,
        call,
        lambda r: answered_error(r.results[0].error_code, r.results[0].error_message),
    )
    found = (each.value for each in response.results[0].configs if each.name == ADMIN_ADDRESS)
    return next(found, None)
