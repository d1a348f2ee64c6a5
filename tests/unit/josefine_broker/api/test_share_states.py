"""The answers to requests for stored share states: each partition has its own outcome."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from josefine_broker.api.shared import share_states
from josefine_broker.api.shared.share_states import StateAnswers, share_key
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.coordinators.share_states_host import Outcome

A, B = UUID(int=1), UUID(int=2)


def namespace(**fields: object) -> SimpleNamespace:
    """One of an API's shapes."""
    return SimpleNamespace(**fields)


def topic(topic_id: UUID, *indexes: int) -> SimpleNamespace:
    return namespace(topic_id=topic_id, partitions=[namespace(partition=each) for each in indexes])


REQUEST = namespace(group_id="g", topics=[topic(B, 3, 1), topic(A, 1)])
ANSWERS = StateAnswers(namespace, namespace, namespace, lambda outcome: {"state": outcome.state})


def told(response: SimpleNamespace) -> list[tuple[UUID, int, ErrorCode, object]]:
    return [
        (result.topic_id, each.partition, each.error_code, each.state)
        for result in response.results
        for each in result.partitions
    ]


def test_each_partition_gets_its_own_outcome_in_the_order_of_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if the outcomes come in another order, and one partition's change is refused."""

    def change_states(ctx: object, changes: list[Any], answer: Callable[[Any], Any]) -> Any:
        found = {key: Outcome(state=change) for key, change in changes}
        return answer(dict(reversed(found.items())))

    def change_of(part: SimpleNamespace) -> Any:
        if part.partition == 3:
            raise KafkaError(ErrorCode.fenced_state_epoch, "an older epoch")
        return f"state of {part.partition}"

    monkeypatch.setattr(share_states, "change_states", change_states)

    response: Any = ANSWERS.change(namespace(), REQUEST, change_of)  # type: ignore[arg-type]

    assert told(response) == [
        (B, 3, ErrorCode.fenced_state_epoch, None),
        (B, 1, ErrorCode.none, "state of 1"),
        (A, 1, ErrorCode.none, "state of 1"),
    ]


def test_a_refused_request_refuses_each_partition() -> None:
    refused = ANSWERS.refuse(REQUEST, KafkaError(ErrorCode.not_coordinator, "another broker"))

    assert {code for _, _, code, _ in told(refused)} == {ErrorCode.not_coordinator}
    assert len(told(refused)) == 3


def test_a_topic_without_an_id_is_one_that_no_topic_has() -> None:
    assert share_key("g", None, 1) == share_key("g", UUID(int=0), 1)
