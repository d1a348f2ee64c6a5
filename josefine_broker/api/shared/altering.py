"""What IncrementalAlterConfigs and AlterConfigs share: checks, one proposal per topic, answers."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.metadata.changes import AlterTopicConfig
from josefine_broker.engine.metadata.image import TopicEntry
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.proposing import answer_when_settled, submit_change

TOPIC = 2
R = TypeVar("R")


class Resource(NamedTuple):
    """What a request names."""

    type: int
    name: str


def results(
    outcomes: Iterable[tuple[Resource, KafkaError | None]], new: Callable[..., R]
) -> tuple[R, ...]:
    """What became of each resource; `new` makes a result of either API, which have equal fields."""
    return tuple(
        new(
            error_code=ErrorCode.none if error is None else error.code,
            error_message=None if error is None else error.message or None,
            resource_type=resource.type,
            resource_name=resource.name,
        )
        for resource, error in outcomes
    )


def alter_topics(
    ctx: Context,
    resources: Sequence[Resource],
    change_of: Callable[[int, TopicEntry], AlterTopicConfig],
    answer: Callable[[Iterable[tuple[Resource, KafkaError | None]]], R],
    *,
    validate_only: bool,
) -> object:
    """Propose `change_of(place in the request, topic)` per topic; `answer` when all settled."""
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    times = Counter(resources)
    outcomes: list[KafkaError | Proposal | None] = []
    for at, resource in enumerate(resources):
        try:
            if times[resource] > 1:
                raise KafkaError(ErrorCode.invalid_request, "the resource is named more than once")
            change = change_of(at, _topic(ctx, resource))
            outcomes.append(None if validate_only else submit_change(ctx, change, deadline_ms))
        except KafkaError as error:
            outcomes.append(error)

    def build() -> R:
        errors = [each.error if isinstance(each, Proposal) else each for each in outcomes]
        return answer(zip(resources, errors, strict=True))

    proposals = [each for each in outcomes if isinstance(each, Proposal)]
    return answer_when_settled(ctx, proposals, deadline_ms, build)


def _topic(ctx: Context, resource: Resource) -> TopicEntry:
    if resource.type != TOPIC:
        raise KafkaError(
            ErrorCode.invalid_request,
            "only topics are configured this way; a broker's settings are in its file",
        )
    topic = ctx.image.topics.get(resource.name)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"no topic '{resource.name}'")
    return topic
