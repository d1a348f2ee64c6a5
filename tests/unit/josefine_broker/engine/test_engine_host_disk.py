"""The asyncio host and its disk: one that fails, is full or slow, and what waits for it."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.host import engine_host
from raft import Batch, Result, StoreFull
from tests.support.waiting import wait_until_async
from tests.unit.josefine_broker.engine.hosts import (
    OTHERS_ARE_AWAY,
    Hosted,
    chain_of,
    listener,
    running,
    serving,
)
from tests.unit.josefine_broker.engine.scenes import topic

SOON = 60.0


def test_a_failing_store_ends_the_host_and_it_says_why_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as one:
            one.store._fail(OSError(5, "Input/output error"))

            lost = one.propose(topic("a"))
            await wait_until_async(lambda: one.failures, SOON, "a failure")

            assert "Input/output error" in str(one.host.failure)
            assert one.failures == [one.host.failure] == [one.broker.failure]
            assert not lost.done(), "nobody knows what became of it"
            with pytest.raises(KafkaError) as caught:
                one.submit(topic("b"))
            assert caught.value.code is ErrorCode.not_controller, "and nothing more is proposed"
        assert one.failures == [one.host.failure]

    asyncio.run(main())


def test_start_and_enrolment_on_a_failing_store_end_with_its_reason(tmp_path: Path) -> None:
    async def at_start() -> None:
        one = Hosted(tmp_path / "start")
        await one.host.open()
        one.store._fail(OSError(5, "Input/output error"))
        with pytest.raises(Fatal, match="Input/output error"):
            await one.run()
        await one.host.stop()

    async def at_enrolment() -> None:
        async with running(tmp_path / "enrolment") as one:
            one.store._fail(OSError(5, "Input/output error"))
            with pytest.raises(Fatal, match="Input/output error"):
                await asyncio.wait_for(one.enrol(), SOON)

    asyncio.run(at_start())
    asyncio.run(at_enrolment())


class FullDisk:
    """Stands before a store whose disk is full, until there is room."""

    def __init__(self, one: Hosted) -> None:
        self.is_full = True
        self._append = one.store.append
        one.store.append = self.append

    def append(self, batch: Batch) -> None:
        if self.is_full:
            raise StoreFull("no room for the block file: No space left on device")
        self._append(batch)


async def until_it_lacks_room(one: Hosted) -> None:
    lacks = lambda: "No space left" in one.broker.quorum.lacks_room  # noqa: E731
    await wait_until_async(lacks, SOON, "a host that waits for room")


def test_a_full_disk_holds_the_host_up_and_ends_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as one:
            disk = FullDisk(one)
            change = one.submit(topic("a"))
            await until_it_lacks_room(one)
            assert not change.done()
            with pytest.raises(KafkaError, match="No space left") as caught:
                one.submit(topic("b"))
            assert caught.value.code is ErrorCode.not_controller, "others take changes"

            disk.is_full = False

            assert (await asyncio.wait_for(change, SOON)).error is None
            assert (one.host.failure, one.broker.quorum.lacks_room) == (None, "")

    asyncio.run(main())


def test_a_host_on_a_full_disk_stops(tmp_path: Path) -> None:
    async def main() -> None:
        one = await Hosted(tmp_path).start()
        FullDisk(one)
        proposal = one.propose(topic("a"))
        await until_it_lacks_room(one)

        await asyncio.wait_for(one.host.stop(), SOON)

        assert not proposal.done()
        assert one.host.failure is None

    asyncio.run(main())


def test_a_start_on_a_full_disk_says_what_it_waits_for_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_host, "CATCH_UP_SECONDS", 3.0)  # the disk says in it that it is full

    async def main() -> None:
        one = Hosted(tmp_path)
        await one.host.open()
        FullDisk(one)
        with pytest.raises(TimeoutError, match=r"was not applied in .* No space left on device"):
            await one.run()
        await one.host.stop()

    asyncio.run(main())


def test_the_event_loop_runs_while_the_disk_is_slow(tmp_path: Path) -> None:
    """In a write that is synced at once, and in one whose sync others need not wait for."""

    async def main() -> None:
        async with running(tmp_path) as one:
            await _until_nothing_is_written(one)
            released = [threading.Event(), threading.Event()]
            left, sync = iter(released), one.store.sync
            one.store.sync = lambda: (next(left).wait(SOON), sync())[1]

            first = one.propose(topic("first"))
            await wait_until_async(lambda: one.broker.quorum.in_hand, SOON, "the first write")
            second = one.propose(topic("second"))
            await _turn_while_waiting(first)
            released[0].set()
            assert await first is Result.COMMITTED
            assert _commits(one)
            await _turn_while_waiting(second)
            released[1].set()
            one.store.sync = sync

            assert await second is Result.COMMITTED

    asyncio.run(main())


async def _until_nothing_is_written(one: Hosted) -> None:
    """A start ends when its last block is applied, perhaps before that is synced."""
    await wait_until_async(lambda: one.broker.quorum.in_hand is None, SOON, "a disk at rest")


async def _turn_while_waiting(slow: asyncio.Future[Result]) -> None:
    for _ in range(100):
        await asyncio.wait([slow], timeout=0)
    assert not slow.done()


def _commits(one: Hosted) -> bool:
    """The write under way says that a block is committed, and has another one with it."""
    work = one.broker.quorum.in_hand
    return (
        work is not None
        and bool(work.committed)
        and work.batch is not None
        and bool(work.batch.blocks)
    )


def test_stop_finishes_the_write_under_way_and_leaves_nothing_running(tmp_path: Path) -> None:
    """To its sync, although what it was written with is applied before that."""

    async def main() -> None:
        one = await Hosted(tmp_path).start()
        await _until_nothing_is_written(one)
        appended, synced, written = threading.Event(), threading.Event(), threading.Event()
        append, sync = one.store.append, one.store.sync
        one.store.sync = lambda: (appended.set(), synced.wait(SOON), sync())[2]
        first = one.propose(topic("first"))
        await wait_until_async(appended.is_set, SOON, "the first write")
        one.propose(topic("second"))  # goes with the news that the first is committed
        one.store.append = lambda batch: (written.wait(SOON), append(batch))[1]
        synced.set()
        await wait_until_async(lambda: _commits(one), SOON, "the second write")
        stopping = asyncio.ensure_future(one.host.stop())
        await asyncio.wait([stopping], timeout=0)
        assert not stopping.done()

        written.set()
        await asyncio.wait_for(stopping, SOON)

        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert one.failures == []
        assert await first is Result.COMMITTED

    asyncio.run(main())
    assert {"first", "second"} <= set(chain_of(tmp_path / "raft")[0])


def test_every_batch_that_promises_something_is_synced_before_its_messages_leave(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        calls: list[str] = []
        one = Hosted(tmp_path, voters=OTHERS_ARE_AWAY)
        await one.host.open()
        append, sync, send = one.store.append, one.store.sync, one.host.transport.send

        def recording_append(batch: Batch) -> None:
            calls.append("promise" if batch.must_sync else "write")
            append(batch)

        def recording_sync() -> None:
            sync()
            calls.append("sync")

        def recording_send(*what: Any) -> None:
            calls.append("send")
            send(*what)

        one.store.append, one.store.sync = recording_append, recording_sync
        one.host.transport.send = recording_send  # type: ignore[method-assign]
        await one.run()
        for term in range(1, 20):  # each newer term is one to be kept before it is told
            one.hears_vote_request(term)
            kept = lambda term=term: calls.count("sync") >= term  # noqa: E731
            await wait_until_async(kept, SOON, "a term that is kept")
        await wait_until_async(lambda: calls.count("send") >= 19, SOON, "votes")
        await one.host.stop()

        text = " ".join(calls) + " "
        assert text.count("promise") >= 19
        assert text.count("promise sync ") == text.count("promise")

    asyncio.run(main())


def test_a_host_that_is_stopped_while_it_starts_lets_nobody_in(tmp_path: Path) -> None:
    async def main() -> None:
        one = Hosted(tmp_path, bound=listener())
        await one.host.open()
        FullDisk(one)
        starting = asyncio.ensure_future(one.run())
        await until_it_lacks_room(one)
        assert not starting.done()

        await one.host.stop()
        await asyncio.wait([starting], timeout=SOON)

        assert starting.done()
        assert one.bound is not None
        accepts = one.bound.socket.fileno() >= 0 and one.bound.socket.getsockopt(
            socket.SOL_SOCKET, socket.SO_ACCEPTCONN
        )
        one.bound.socket.close()
        assert not accepts

    asyncio.run(main())
