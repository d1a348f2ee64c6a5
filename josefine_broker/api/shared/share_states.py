"""What the requests for stored share states have in common: their partitions, each with a change of
its state."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.share_states_host import Outcome, change_states, refused
from josefine_broker.engine.groups.share.stored import Change
from josefine_broker.engine.groups.share.values import ShareKey

NO_TOPIC = UUID(int=0)


def share_key(group_id: str, topic_id: UUID | None, partition: int) -> ShareKey:
    """The share partition of a request; no topic has the id of zeros."""
    return ShareKey(group_id, topic_id or NO_TOPIC, partition)


def keys_of(request: Any) -> list[ShareKey]:
    """The share partitions that a request names."""
    return [
        share_key(request.group_id, topic.topic_id, each.partition)
        for topic in request.topics
        for each in topic.partitions
    ]


def results_of(
    request: Any,
    outcomes: Mapping[ShareKey, Outcome],
    topic_result: Callable[..., Any],
    partition_result: Callable[[Outcome, int], Any],
) -> tuple[Any, ...]:
    """The answer's results in the order of the request, from its API's own shapes."""
    return tuple(
        topic_result(
            topic_id=topic.topic_id,
            partitions=tuple(
                partition_result(
                    outcomes[share_key(request.group_id, topic.topic_id, each.partition)],
                    each.partition,
                )
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )


def answer_states(
    ctx: Context,
    request: Any,
    change_of: Callable[[Any], Change],
    build: Callable[[Mapping[ShareKey, Outcome]], object],
) -> object:
    """Change the state of each partition in the request by `change_of` it; `build` makes the answer
    from all outcomes, now or when they are committed."""
    changes: list[tuple[ShareKey, Change]] = []
    bad: dict[ShareKey, Outcome] = {}
    for topic in request.topics:
        for part in topic.partitions:
            key = share_key(request.group_id, topic.topic_id, part.partition)
            try:
                changes.append((key, change_of(part)))
            except KafkaError as error:
                bad[key] = refused(error)
    return change_states(ctx, changes, lambda outcomes: build({**outcomes, **bad}))
