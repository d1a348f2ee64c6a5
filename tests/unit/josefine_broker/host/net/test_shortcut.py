"""The dispatcher's shortcuts: tried first, each for its API, counted, and left out where they have
no answer."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from josefine_broker.engine.purgatory.purgatory import Encoded
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.dispatch import (
    Buffers,
    DisconnectError,
    Dispatcher,
    Peer,
    Route,
    Waiting,
)
from josefine_broker.wire.codec import decode_response, encode_request, parse_request_header
from josefine_broker.wire.entities import list_groups
from tests.unit.josefine_broker.host.serving import GROUPS, Held, groups_answer, refuse

PEER = Peer(listener="PLAINTEXT", address="127.0.0.1:5")


def ask(text: str) -> memoryview:
    body = list_groups.ListGroupsRequest(states_filter=(text,))
    return memoryview(b"".join(encode_request(GROUPS, 4, 1, None, body))[4:])


def dispatcher_of(
    metrics: Metrics,
    shortcut: Callable[[memoryview, Peer], Buffers | Waiting | None],
    handle: Callable[[object, object, list_groups.ListGroupsRequest], object],
) -> Dispatcher:
    """One route, for ListGroups, and a shortcut that is counted as Fetch."""
    route = Route(
        name="ListGroups", min_version=0, max_version=5, handle=handle, refuse=refuse,
        stats=metrics.api("ListGroups"),
    )  # fmt: skip
    return Dispatcher(
        {GROUPS: route}, lambda: None, metrics.connections,
        shortcuts={GROUPS: (shortcut, metrics.api("Fetch"))},
    )  # fmt: skip


def test_a_request_takes_its_route_only_where_the_shortcut_has_no_answer() -> None:
    metrics = Metrics()
    served: list[str] = []
    short = ask("short")

    def shortcut(frame: memoryview, _peer: Peer) -> Buffers | None:
        return [b"answer"] if frame == short else None

    def handle(_header: object, _peer: object, body: list_groups.ListGroupsRequest) -> object:
        served.append(body.states_filter[0])
        return groups_answer(body.states_filter[0])

    dispatcher = dispatcher_of(metrics, shortcut, handle)

    assert dispatcher.serve(short, PEER) == [b"answer"]
    other = dispatcher.serve(ask("other"), PEER)

    assert isinstance(other, list)
    answer = decode_response(GROUPS, 4, memoryview(b"".join(other))[4:])[1]
    assert answer.groups[0].group_id == "other"
    assert served == ["other"]
    assert sum(metrics.api("Fetch").buckets) == 1
    assert sum(metrics.api("ListGroups").buckets) == 1


def test_what_fails_on_a_request_like_the_last_one_is_logged_and_leaves_it_to_its_route(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def again(frame: memoryview, _peer: Peer) -> Waiting | None:
        raise RuntimeError("boom")

    dispatcher = Dispatcher({}, lambda: None, Metrics().connections, again=again)
    with caplog.at_level(logging.ERROR):
        assert dispatcher.serve_again(ask("text"), PEER) is None
    assert [each.message for each in caplog.records] == ["shortcut failed"]


def test_a_shortcut_is_for_one_api_and_a_frame_without_a_key_is_malformed() -> None:
    metrics = Metrics()
    dispatcher = dispatcher_of(metrics, lambda _frame, _peer: [b"answer"], lambda *_: None)
    for frame in (b"", b"\0", b"\1" + bytes((GROUPS,)), b"\0\7", bytes((GROUPS, 0))):
        with pytest.raises(DisconnectError):
            dispatcher.serve(memoryview(frame), PEER)
    assert sum(metrics.api("Fetch").buckets) == 0


def test_a_request_whose_shortcut_fails_is_served_by_its_route(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()

    def shortcut(frame: memoryview, _peer: Peer) -> Buffers | None:
        raise RuntimeError("boom")

    def handle(_header: object, _peer: object, body: list_groups.ListGroupsRequest) -> object:
        return groups_answer(body.states_filter[0])

    dispatcher = dispatcher_of(metrics, shortcut, handle)

    with caplog.at_level(logging.ERROR):
        buffers = dispatcher.serve(ask("text"), PEER)

    assert isinstance(buffers, list)
    answer = decode_response(GROUPS, 4, memoryview(b"".join(buffers))[4:])[1]
    assert answer.groups[0].group_id == "text"
    assert [record.message for record in caplog.records] == ["shortcut failed"]
    assert sum(metrics.api("Fetch").buckets) == 0


def test_a_request_that_waits_is_counted_once_and_its_encoded_answer_is_sent_as_it_is() -> None:
    metrics = Metrics()
    held = Held(60_000, "held")

    def shortcut(frame: memoryview, _peer: Peer) -> Waiting:
        return Waiting(held, parse_request_header(frame), metrics.api("Fetch"))

    dispatcher = dispatcher_of(metrics, shortcut, lambda *_: None)
    waiting = dispatcher.serve(ask("text"), PEER)
    assert isinstance(waiting, Waiting)
    assert sum(metrics.api("Fetch").buckets) == 0

    held.complete(Encoded([b"answer"]))

    assert dispatcher.finish(waiting) == [b"answer"]
    assert sum(metrics.api("Fetch").buckets) == 1
