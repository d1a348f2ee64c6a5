"""The storage of a broker's logs: no two of its parts wait for each other."""

import asyncio
from pathlib import Path
from threading import Timer
from uuid import UUID

import pytest

from josefine_broker.base.ids import TopicId, TopicPartition
from josefine_broker.compose.log_storage import LogStorage
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.clock import RealClock
from josefine_broker.host.disk.flusher import JOBS_MAX, run_now
from josefine_broker.host.disk.sync_pipes import compiled
from tests.unit.josefine_broker.host.log.support import append, open_in

TP = TopicPartition("orders", 0)


@pytest.mark.skipif(compiled is None, reason="no compiled threads for this platform")
def test_full_flusher_does_not_wait_for_a_sync_that_only_the_loop_can_end(tmp_path: Path) -> None:
    """A full segment's job waits for the lock of its log, which a sync has until the loop takes its
    result; and the loop waited for the flusher, with 256 jobs behind that one: for ever."""

    async def scene() -> bool:
        loop, storage = asyncio.get_running_loop(), LogStorage(tmp_path, 1_000, RealClock())
        flusher, synced = storage._flusher, asyncio.Event()
        storage.when_synced(lambda _tp: synced.set(), run_now, lambda error: None)
        log = open_in(storage.manager, TP, TopicId(UUID(int=1)), LogConfig(flush_messages=1))
        append(log, [b"a"])  # the first sync is a thread's: the directory is new
        await synced.wait()
        rescued: list[bool] = []

        def rescue() -> None:
            rescued.append(True)
            for _ in range(2 * JOBS_MAX):
                flusher._room.release()

        def fill(filled: asyncio.Future[bool | None]) -> None:
            """In the turn of the loop that has begun the sync; None: a thread makes it, because
            another one notes what the sync before has reached."""
            if log._sync.lock.wait is None:
                filled.set_result(None)
                return
            timer = Timer(20, rescue)
            timer.start()
            log.roll()
            for _ in range(JOBS_MAX + 1):
                storage.manager.schedule(lambda: None)
            timer.cancel()
            filled.set_result(not rescued)

        is_filled = None
        while is_filled is None:
            synced.clear()
            append(log, [b"b"])  # its sync begins first
            filled: asyncio.Future[bool | None] = loop.create_future()
            loop.call_soon(fill, filled)
            is_filled = await filled
            await synced.wait()
        assert log.durable_end_offset == log.log_end_offset
        await storage.stop()
        storage.manager.close()
        return is_filled

    async def bounded() -> bool:
        async with asyncio.timeout(60):
            return await scene()

    assert asyncio.run(bounded())
