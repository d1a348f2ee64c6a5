"""The threads of group commit: results return to the event loop, whatever became of the job."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from josefine_broker.host.disk.sync_threads import SyncThreads


def test_results_return_on_the_loop_also_of_a_job_that_failed() -> None:
    async def scene() -> None:
        failed: list[BaseException] = []
        threads = SyncThreads(asyncio.get_running_loop(), failed.append)
        calls: list[int] = []

        def within(work: Callable[[], None]) -> None:
            before = len(done)
            work()
            calls.append(len(done) - before)

        threads.within = within
        ran: list[int] = []
        done: list[int] = []
        all_done = asyncio.Event()

        def finished() -> None:
            done.append(threading.get_ident())
            if len(done) == 2:
                all_done.set()

        def behind() -> None:
            ran.append(threading.get_ident())

        def fail() -> None:
            raise OSError("the disk is gone")

        threads.submit(lambda: ran.append(threading.get_ident()), finished, behind)
        threads.submit(fail, finished, behind)
        async with asyncio.timeout(30):
            await all_done.wait()

        assert sum(calls) == 2
        assert done == [threading.get_ident()] * 2
        assert threading.get_ident() not in ran
        assert [str(error) for error in failed] == ["the disk is gone"]
        await asyncio.to_thread(threads.stop)

    asyncio.run(scene())


def test_stop_waits_for_the_sync_under_way_and_begins_no_other() -> None:
    async def scene() -> None:
        threads = SyncThreads(asyncio.get_running_loop(), lambda error: None)
        goes_on, ran = threading.Event(), []
        threads.submit(lambda: ran.append(goes_on.wait(30)), lambda: None, lambda: None)

        stopping = asyncio.create_task(asyncio.to_thread(threads.stop))
        goes_on.set()
        await stopping

        threads.submit(lambda: ran.append(False), lambda: None, lambda: None)
        assert ran == [True]

    asyncio.run(scene())
