"""An append with acks=all is answered once, with the first result that is certain."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.purgatory.purgatory import ParkedRequests
from josefine_broker.engine.replicas.committing import Appended, AwaitTogether, Together
from tests.support.garbage import alive, uncollected

TP = ("t", 0)


class Led:
    """A partition that this broker leads, with a log; the append ended at offset 10."""

    def __init__(self, **state: Any) -> None:
        fields = {"is_leader": True, "high_watermark": 5, "is_under_min_isr": False,
                  "isr": (1, 2), "is_alone": False, "failure": "", "durable_end_offset": 10,
                  "is_hosted": True}  # fmt: skip
        state = {**fields, **state}
        log = SimpleNamespace(
            failure=state.pop("failure"), durable_end_offset=state.pop("durable_end_offset")
        )
        is_hosted = state.pop("is_hosted")
        hosted: Any = SimpleNamespace(partition=SimpleNamespace(**state), log=log)
        found = {TP: hosted} if is_hosted else {TP: object()}
        ctx: Any = SimpleNamespace(hosted=SimpleNamespace(partitions=found))
        self.results: list[KafkaError | None] = []
        self.appended = Appended(ctx, TP, hosted, 10, self.results.append)


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({"high_watermark": 10}, None),
        ({"high_watermark": 10, "is_under_min_isr": True}, None),
        ({"is_leader": False, "high_watermark": 10}, ErrorCode.not_leader_or_follower),
        ({"is_hosted": False, "high_watermark": 10}, ErrorCode.not_leader_or_follower),
        ({"is_under_min_isr": True}, ErrorCode.not_enough_replicas_after_append),
        ({"failure": "disk", "durable_end_offset": 9}, ErrorCode.kafka_storage_error),
        (
            {"failure": "disk", "durable_end_offset": 9, "is_under_min_isr": True},
            ErrorCode.kafka_storage_error,
        ),
    ],
)
def test_a_certain_result_is_reported_once(state: dict[str, Any], code: ErrorCode | None) -> None:
    led = Led(**state)

    assert led.appended.decide()

    (result,) = led.results
    assert (result and result.code) is code


@pytest.mark.parametrize("state", [{}, {"high_watermark": 9}, {"failure": "disk"}])
def test_until_then_nothing_is_reported(state: dict[str, Any]) -> None:
    led = Led(**state)

    assert not led.appended.decide()
    assert led.results == []


def test_at_the_deadline_the_request_has_timed_out() -> None:
    led = Led()

    led.appended.give_up()

    (result,) = led.results
    assert result is not None
    assert result.code is ErrorCode.request_timed_out


@pytest.mark.parametrize(
    ("state", "at_once"),
    [
        ({"is_alone": True, "high_watermark": 10}, True),
        ({"is_alone": True, "high_watermark": 9}, False),
        ({"high_watermark": 10}, False),
    ],
)
def test_only_without_other_replicas_an_append_commits_at_once(state, at_once: bool) -> None:
    assert Led(**state).appended.is_committed_at_once is at_once


def test_requests_that_waited_together_go_without_the_collector() -> None:
    """With the requests that wait, each of which may have what its connection has received."""
    led, parked, answers = Led(), ParkedRequests(), list[object]()
    ctx, hosted = led.appended.ctx, led.appended.hosted
    ctx.cluster = SimpleNamespace(is_heard=True)  # type: ignore[assignment]
    with uncollected():
        waiting = AwaitTogether(ctx, TP, hosted, 10, 100)
        waiting.on_done = lambda each: answers.append(each.response)
        waiting.park(parked)
        hosted.partition.high_watermark = 10
        parked.wake(TP, 1)
        parked.run_completed()
        del waiting

        assert answers == [Together(10)]
        assert not alive(AwaitTogether)
