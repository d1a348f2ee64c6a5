"""`/debug` of a server at work: who waits for what, and where its tasks are."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from josefine_broker.observe import debug
from josefine_broker.observe.debug import debug_view
from tests.unit.josefine_broker.host.serving import Serving, serving, until


def view(served: Serving, **query: str) -> Any:
    ctx: Any = SimpleNamespace(broker_id=7, parked=served.parked, clock=served.clock)
    return debug_view(ctx, served.server, query)


async def waiting_for_ever(begun: asyncio.Event) -> None:
    begun.set()
    await asyncio.get_running_loop().create_future()


def test_request_that_waits_is_told_with_who_waits_and_for_what() -> None:
    async def scenario() -> None:
        async with serving(lambda *_: served_ref[0].hold("x", "orders")) as served:
            served_ref.append(served)
            client = await served.connect()
            client.ask(41, "a secret of the request")
            client.ask(42)
            await until(lambda: len(served.parked) == 2, "they wait")

            told = view(served)

            assert json.loads(json.dumps(told)) == told
            assert [each["correlation_id"] for each in told["requests"]] == [41, 42]
            first = told["requests"][0]
            assert (first["api"], first["partitions"]) == ("ListGroups", ["orders-0"])
            assert (first["listener"], first["principal"]) == ("TEST", "User:ANONYMOUS")
            assert first["client"].startswith("127.0.0.1:")
            assert 0 <= first["waited_ms"] < 60_000
            assert 0 < first["left_ms"] <= 60_000
            assert sum(told["parked"].values()) == 2
            assert "secret" not in json.dumps(told)
            text = view(served, **{"as": "text"})
            assert "request: ListGroups v4 #41 of User:ANONYMOUS 127.0.0.1:" in text
            assert "secret" not in text

            served.release("orders")
            await until(lambda: not view(served)["requests"], "they are answered")

    served_ref: list[Serving] = []
    asyncio.run(scenario())


def test_the_oldest_are_told_first_and_what_is_answered_is_not() -> None:
    async def scenario() -> None:
        def handle(_header: Any, _peer: Any, body: Any) -> Any:
            return served_ref[0].hold("x", body.states_filter[0])

        async with serving(handle) as served:
            served_ref.append(served)
            newer, older = await served.connect(), await served.connect()
            older.ask(1, "first")
            older.ask(2, "second")

            def told() -> list[tuple[int, int]]:
                requests = view(served)["requests"]
                return [(each["correlation_id"], each["waited_ms"]) for each in requests]

            await until(lambda: len(told()) == 2 and told()[0][1] > 2, "they wait")
            newer.ask(3, "third")
            await until(lambda: len(told()) == 3, "it waits")
            assert told()[-1][0] == 3

            served.release("second")  # its answer waits for the first one's

            assert [number for number, _ in told()] == [1, 3]
            for key in ("first", "third"):
                served.release(key)

    served_ref: list[Serving] = []
    asyncio.run(scenario())


def test_task_and_thread_are_told_with_the_place_where_they_are() -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="a slow disk")
    thread.start()

    async def scenario() -> None:
        async with serving(lambda *_: None) as served:
            begun = asyncio.Event()
            patient = waiting_for_ever(begun)
            task = asyncio.get_running_loop().create_task(patient, name="a patient one")
            await begun.wait()

            told = view(served)

            (found,) = (each for each in told["tasks"] if each["name"] == "a patient one")
            assert found["what"] == "waiting_for_ever"
            assert found["stack"][0].endswith(" waiting_for_ever")
            assert found["stack"][0].startswith(f"{__name__}:")
            (slow,) = (each for each in told["threads"] if each["name"] == "a slow disk")
            assert slow["stack"][-1].startswith("threading:")
            assert "task: a patient one waiting_for_ever" in view(served, **{"as": "text"})
            task.cancel()

    try:
        asyncio.run(scenario())
    finally:
        release.set()
        thread.join()


def test_of_very_many_the_oldest_are_told_and_how_many_more_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(debug, "TOLD_MAX", 2)

    async def scenario() -> None:
        async with serving(lambda *_: served_ref[0].hold("x")) as served:
            served_ref.append(served)
            client = await served.connect()
            for number in range(3):
                client.ask(number)
            await until(lambda: len(served.parked) == 3, "they wait")

            told = view(served)

            assert [each["correlation_id"] for each in told["requests"]] == [0, 1]
            assert told["requests_omitted"] == 1
            assert "and 1 more requests" in view(served, **{"as": "text"})
            served.release()

    served_ref: list[Serving] = []
    asyncio.run(scenario())


def test_form_that_there_is_not_is_refused() -> None:
    async def scenario() -> None:
        async with serving(lambda *_: None) as served:
            with pytest.raises(ValueError, match="as='xml' is not one of json, text"):
                view(served, **{"as": "xml"})

    asyncio.run(scenario())
