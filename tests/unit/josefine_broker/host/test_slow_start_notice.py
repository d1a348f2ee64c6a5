"""A start that takes long says how far it is."""

from __future__ import annotations

import asyncio

import pytest

from josefine_broker.host import slow_start_notice
from josefine_broker.host.slow_start_notice import AGAIN_S, FIRST_S, tell_meanwhile


def test_work_that_lasts_is_told_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_start_notice, "FIRST_S", 0.01)
    monkeypatch.setattr(slow_start_notice, "AGAIN_S", 0.01)
    said: list[str] = []

    async def scenario() -> int:
        enough = asyncio.Event()

        async def work() -> int:
            await enough.wait()
            return 7

        def say(words: str) -> None:
            said.append(words)
            if len(said) == 3:
                enough.set()

        return await tell_meanwhile(work(), say, lambda: f"{len(said)} of 3")

    assert asyncio.run(scenario()) == 7
    assert said == ["0 of 3", "1 of 3", "2 of 3"]


def test_short_work_says_nothing_and_its_failure_is_its_own() -> None:
    async def fails() -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        asyncio.run(tell_meanwhile(fails(), pytest.fail, lambda: "never"))


def test_work_ends_with_who_waits_for_it() -> None:
    async def scenario() -> bool:
        begun = asyncio.Event()
        ended = asyncio.Event()

        async def work() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        waiting = asyncio.ensure_future(tell_meanwhile(work(), pytest.fail, lambda: ""))
        await begun.wait()
        waiting.cancel()
        await asyncio.wait_for(ended.wait(), 10)
        return waiting.cancelling() == 1

    assert asyncio.run(scenario())


def test_no_start_is_silent_for_ten_seconds() -> None:
    assert max(FIRST_S, AGAIN_S) < 10
