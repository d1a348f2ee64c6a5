"""Code shared by IncrementalAlterConfigs and AlterConfigs: checks, proposals, answers.

A topic has a configuration of its own, and so has a group, whether it exists or not.

A broker's settings are in its file, so none is stored for it: deleting a setting that it does not
have succeeds at once, and a change is refused. The throttles of replication are accepted and have
no effect, because tools that move partitions always set them, and delete them afterwards.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.metadata.acls import TEXT_CHARS_MAX
from josefine_broker.engine.metadata.apply import check_keeps_group_configs
from josefine_broker.engine.metadata.changes import AlterGroupConfig, AlterTopicConfig
from josefine_broker.engine.metadata.config_texts import ConfigType, at_least, read_value
from josefine_broker.engine.metadata.image import TopicEntry
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.proposing import answer_when_settled, submit_change

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
IN_FILES = {LOGGER: "log.level", CLIENT_METRICS: "telemetry.client_metrics"}
"""Resources that are settings of each broker's file here, by type."""
BROKER_THROTTLES = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Settings of `kafka-reassign-partitions --throttle`, which --verify deletes; topicctl always sets
them."""
R = TypeVar("R")


class Resource(NamedTuple):
    """A resource named in a request."""

    type: int
    name: str


def results(
    outcomes: Iterable[tuple[Resource, KafkaError | None]], new: Callable[..., R]
) -> tuple[R, ...]:
    """The result of each resource; `new` makes a result of either API, which have equal fields."""
    return tuple(
        new(
            error_code=ErrorCode.none if error is None else error.code,
            error_message=None if error is None else error.message or None,
            resource_type=resource.type,
            resource_name=resource.name,
        )
        for resource, error in outcomes
    )


def alter_resources(
    ctx: Context,
    resources: Sequence[Resource],
    change_of: Callable[[int, TopicEntry], AlterTopicConfig],
    change_of_group: Callable[[int, str], AlterGroupConfig],
    set_on_broker: Callable[[int], Iterable[tuple[str, str | None]]],
    answer: Callable[[Iterable[tuple[Resource, KafkaError | None]]], R],
    *,
    validate_only: bool,
) -> object:
    """Propose `change_of(position in the request, topic)` per topic, and `change_of_group(position,
    group id)` per group; `answer` when all settled.

    `set_on_broker` returns the settings for a resource that is a broker.
    """
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    times = Counter(resources)
    outcomes: list[KafkaError | Proposal | None] = []
    for at, resource in enumerate(resources):
        try:
            if times[resource] > 1:  # which of its changes should win is unclear
                raise KafkaError(ErrorCode.invalid_request, "the resource is named more than once")
            if resource.type == BROKER:
                _check_broker(ctx, resource.name, set_on_broker(at))
                outcomes.append(None)
                continue
            change = (
                change_of_group(at, _group(ctx, resource))
                if resource.type == GROUP
                else change_of(at, _topic(ctx, resource))
            )
            outcomes.append(None if validate_only else submit_change(ctx, change, deadline_ms))
        except KafkaError as error:
            outcomes.append(error.without_frames())

    def build() -> R:
        errors = [each.error if isinstance(each, Proposal) else each for each in outcomes]
        return answer(zip(resources, errors, strict=True))

    proposals = [each for each in outcomes if isinstance(each, Proposal)]
    return answer_when_settled(ctx, proposals, deadline_ms, build)


def _check_broker(ctx: Context, name: str, assign: Iterable[tuple[str, str | None]]) -> None:
    """Raises KafkaError unless the broker exists (empty: all), and only throttles are set on it."""
    is_there = not name or (name.isdecimal() and int(name) in ctx.image.brokers)
    if not is_there:
        raise KafkaError(ErrorCode.invalid_request, f"there is no broker '{name}'")
    for key, value in assign:
        if key not in BROKER_THROTTLES:
            raise KafkaError(
                ErrorCode.invalid_request,
                f"'{key}' cannot be set here: a broker's settings are in its file",
            )
        if value is None:
            raise KafkaError(ErrorCode.invalid_request, f"'{key}' has no value")
        try:
            at_least(0)(read_value(ConfigType.LONG, value))
        except ValueError as error:
            raise KafkaError(ErrorCode.invalid_request, f"'{key}' {error}: {value!r}") from error


def _group(ctx: Context, resource: Resource) -> str:
    check_keeps_group_configs(ctx.image)
    if not resource.name:
        raise KafkaError(ErrorCode.invalid_request, "a configuration of all groups is not served")
    if len(resource.name) > TEXT_CHARS_MAX:
        message = f"a group id may have {TEXT_CHARS_MAX} characters"
        raise KafkaError(ErrorCode.invalid_request, message)
    return resource.name


def given(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The configurations of a request by name. Raises KafkaError for one without a value, or that
    is there more than once."""
    found: dict[str, str] = {}
    for name, value in configs:
        if name in found:
            raise KafkaError(ErrorCode.invalid_request, f"'{name}' is given more than once")
        if value is None:
            raise KafkaError(ErrorCode.invalid_request, f"'{name}' has no value")
        found[name] = value
    return found


def without_configs(kind: int) -> KafkaError:
    """The refusal of a resource of this type."""
    message = f"resources of type {kind} have no configs"
    if kind in IN_FILES:
        message += f": '{IN_FILES[kind]}' in each broker's file has them"
    return KafkaError(ErrorCode.invalid_request, message)


def _topic(ctx: Context, resource: Resource) -> TopicEntry:
    if resource.type != TOPIC:
        raise without_configs(resource.type)
    topic = ctx.image.topics.get(resource.name)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"no topic '{resource.name}'")
    return topic
