"""Spans on their way to a collector: nobody waits for it, and what is lost is counted."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.install_commands import not_installed
from josefine_broker.config.broker_config import load_config
from josefine_broker.engine.limits.descriptors import divide
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.dispatch import DisconnectError, Dispatcher, Peer, Route, Waiting
from josefine_broker.host.net.sampling import SamplingDispatcher
from josefine_broker.host.otlp import Otlp
from josefine_broker.host.spans import BATCH_SPANS, Span, Spans
from josefine_broker.host.worker import Worker
from josefine_broker.main import CannotRunError, _serve
from josefine_broker.wire import entities as e
from josefine_broker.wire.apis import APIS
from josefine_broker.wire.codec import encode_request
from tests.support.collector import Collector
from tests.support.waiting import wait_until_async
from tests.unit.josefine_broker.host.serving import GROUPS, Held, groups_answer, refuse

TIMEOUT_S = 30.0
PEER = Peer(listener="SSL", address="10.0.0.7:4711", principal="User:alice")


def span(number: int) -> Span:
    return Span(f"n{number}", 1_000, 2_000, False, {"number": number})


def nothing(_: object) -> None:
    """No fatal error."""


class Sent:
    """A thread that does nothing until it is told to."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[..., Any], Callable[[Any], None]]] = []

    def submit(self, job: Any, _is_wanted: Any, done: Any) -> None:
        self.jobs.append((job, done))

    def end(self, result: bool | None) -> None:
        """Of the oldest job; None: it failed."""
        job, done = self.jobs.pop(0)
        job(lambda: None)
        done(result)


def queue_of(queue_max: int) -> tuple[Spans, Sent, list[Sequence[Span]]]:
    batches: list[Sequence[Span]] = []
    spans = Spans(lambda batch, _: bool(batches.append(batch)), queue_max, lambda: 0.0)
    thread = Sent()
    spans.submit = thread.submit
    return spans, thread, batches


def test_what_finds_no_place_is_dropped_and_counted_and_nobody_waits() -> None:
    spans, thread, batches = queue_of(3)

    for number in range(5):
        spans.put(span(number))
    spans.send()
    for number in range(5, 10):  # while those are on their way
        spans.put(span(number))
        spans.send()

    assert len(thread.jobs) == 1
    thread.end(True)
    assert [each.name for each in batches[0]] == ["n0", "n1", "n2"]
    assert (spans.sent, spans.dropped, spans.refused) == (3, 4, 0)
    spans.send()
    thread.end(True)
    assert [each.name for each in batches[1]] == ["n5", "n6", "n7"]


@pytest.mark.parametrize("result", [False, None])
def test_refused_spans_are_counted_and_told_once_and_the_next_ones_are_sent(
    result: bool | None, caplog: pytest.LogCaptureFixture
) -> None:
    spans, thread, _ = queue_of(10)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            spans.put(span(number))
            spans.send()
            thread.end(result)

    assert (spans.sent, spans.refused) == (0, 3)
    assert [each.message for each in caplog.records] == ["traces not taken"]
    spans.put(span(4))
    spans.send()
    thread.end(True)
    assert spans.sent == 1


def test_long_queue_goes_in_batches_without_a_pause() -> None:
    spans, thread, batches = queue_of(10 * BATCH_SPANS)
    for number in range(2 * BATCH_SPANS + 1):
        spans.put(span(number))

    spans.send()
    while thread.jobs:
        thread.end(True)

    assert [len(each) for each in batches] == [BATCH_SPANS, BATCH_SPANS]
    spans.send()
    thread.end(True)
    assert spans.sent == 2 * BATCH_SPANS + 1


def dispatcher_of(
    handle: Callable[..., Any], chance: Callable[[], float], told: list[Span]
) -> SamplingDispatcher:
    metrics, spec = Metrics(), APIS[GROUPS]
    route = Route(
        name=spec.name,
        min_version=spec.min_version,
        max_version=spec.max_version,
        handle=handle,
        refuse=refuse,
        stats=metrics.api(spec.name),
    )
    return SamplingDispatcher(
        {GROUPS: route},
        lambda: None,
        metrics.connections,
        ratio=0.5,
        chance=chance,
        put=told.append,
    )


def asked(client_id: str = "app") -> memoryview:
    request = e.list_groups.ListGroupsRequest(states_filter=())
    return memoryview(bytearray(b"".join(encode_request(GROUPS, 4, 7, client_id, request)))[4:])


def test_chance_says_which_request_has_a_span_and_the_answer_is_the_same() -> None:
    told: list[Span] = []
    chances = [0.49, 0.5, 0.0, 0.99]
    dispatcher = dispatcher_of(lambda *_: groups_answer("g"), lambda: chances.pop(0), told)

    answers = [dispatcher.serve(asked(), PEER) for _ in range(4)]

    assert len(told) == 2
    assert all(each == answers[0] for each in answers)
    first = told[0]
    assert (first.name, first.failed) == ("ListGroups", False)
    assert first.end_ns >= first.start_ns
    assert first.attributes == {
        "rpc.system": "kafka",
        "rpc.method": "ListGroups",
        "kafka.api.key": 16,
        "kafka.api.version": 4,
        "kafka.client.id": "app",
        "enduser.id": "User:alice",
        "client.address": "10.0.0.7",
        "client.port": 4711,
        "josefine.listener": "SSL",
        "josefine.parked_ms": 0.0,
        "josefine.request.bytes": len(asked()),
        "josefine.response.bytes": sum(map(len, answers[0] or ())),  # type: ignore[arg-type]
    }


def test_parked_request_is_told_when_it_is_answered_with_how_long_it_waited() -> None:
    told: list[Span] = []
    held = Held(2**62, "late")
    dispatcher = dispatcher_of(lambda *_: held, lambda: 0.0, told)

    waiting = dispatcher.serve(asked(), PEER)

    assert isinstance(waiting, Waiting)
    assert told == []
    held.complete(groups_answer("late"))
    buffers = dispatcher.finish(waiting)
    (only,) = told
    assert float(only.attributes["josefine.parked_ms"]) > 0
    assert only.attributes["josefine.response.bytes"] == sum(map(len, buffers))


def test_refused_request_is_marked_and_noise_has_no_span() -> None:
    told: list[Span] = []

    def handle(*_: object) -> None:
        raise KafkaError(ErrorCode.cluster_authorization_failed, "not you")

    dispatcher = dispatcher_of(handle, lambda: 0.0, told)
    dispatcher.serve(asked(), PEER)

    for noise in (memoryview(b"\xff"), memoryview(b"\x7f\x00\x00\x00\x00\x00\x00\x00\xff\xff")):
        with pytest.raises(DisconnectError):
            dispatcher.serve(noise, PEER)

    assert [each.failed for each in told] == [True]


def test_without_traces_the_plain_dispatcher_knows_nothing_of_them() -> None:
    assert not hasattr(Dispatcher, "_put")
    assert Waiting.__slots__ == (
        "buffers", "header", "parked", "parked_ns", "started_ns", "stats", "weight"
    )  # fmt: skip


def test_collector_gets_each_span_as_a_trace_of_its_own() -> None:
    async def scenario() -> None:
        with Collector() as collector:
            otlp = Otlp(f"{collector.address}/v1/traces", {"service.name": "josefine"})
            worker = Worker(nothing, "traces")
            spans = Spans(otlp.export, 100, lambda: 0.0)
            spans.submit = worker.submit
            for number in range(40):
                spans.put(span(number)._replace(failed=number == 7))
            spans.send()
            await wait_until_async(lambda: spans.sent == 40, TIMEOUT_S, "they are sent")

            assert collector.paths == {"/v1/traces"}
            assert [each.name for each in collector.spans] == [f"n{n}" for n in range(40)]
            assert [each.failed for each in collector.spans] == [n == 7 for n in range(40)]
            assert len({each.trace_id for each in collector.spans}) == 40
            first = collector.spans[0]
            assert (first.start_ns, first.end_ns) == (1_000, 2_000)
            assert first.attributes == {"number": 0}
            assert first.resource["service.name"] == "josefine"

            collector.status = 400
            spans.put(span(41))
            spans.send()
            await wait_until_async(lambda: spans.refused == 1, TIMEOUT_S, "it is refused")
            otlp.close()
            await worker.stop()

    asyncio.run(scenario())


def test_package_that_is_not_installed_is_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [each for each in sys.modules if each.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    keys = {"telemetry.traces": "http://127.0.0.1:1", "broker.data_dir": str(tmp_path / "data")}

    with pytest.raises(CannotRunError) as caught:
        asyncio.run(_serve(load_config(None, {}, keys), divide(4_096, 100)))

    expected = f"telemetry.traces: {not_installed('opentelemetry')}"
    assert str(caught.value) == expected
    assert not (tmp_path / "data").exists()
