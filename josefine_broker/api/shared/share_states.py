"""What the requests for stored share states have in common: their partitions, each with a change of
its state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class StateAnswers:
    """The answers of one of these APIs, made of its own shapes."""

    response: Callable[..., Any]
    topic_result: Callable[..., Any]
    partition_result: Callable[..., Any]
    """Of the index and the error; its other fields are those that `more_of` the outcome names."""
    more_of: Callable[[Outcome], Mapping[str, object]] = lambda outcome: {}

    def change(self, ctx: Context, request: Any, change_of: Callable[[Any], Change]) -> object:
        """Change the state of each partition in the request by `change_of` it; answered now or when
        all that is committed. A KafkaError of `change_of` is its partition's alone."""
        changes: list[tuple[ShareKey, Change]] = []
        bad: dict[ShareKey, Outcome] = {}
        for topic in request.topics:
            for part in topic.partitions:
                key = share_key(request.group_id, topic.topic_id, part.partition)
                try:
                    changes.append((key, change_of(part)))
                except KafkaError as error:
                    bad[key] = refused(error)
        return change_states(
            ctx, changes, lambda outcomes: self._of(request, {**outcomes, **bad}.__getitem__)
        )

    def refuse(self, request: Any, error: KafkaError) -> Any:
        """The answer when the whole request is refused."""
        return self._of(request, lambda key: refused(error))

    def _of(self, request: Any, outcome_of: Callable[[ShareKey], Outcome]) -> Any:
        """In the order of the request."""
        return self.response(
            results=tuple(
                self.topic_result(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        self._result(
                            each.partition,
                            outcome_of(share_key(request.group_id, topic.topic_id, each.partition)),
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def _result(self, partition: int, outcome: Outcome) -> Any:
        return self.partition_result(
            partition=partition,
            error_code=outcome.code,
            error_message=outcome.message,
            **self.more_of(outcome),
        )
