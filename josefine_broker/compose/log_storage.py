"""The storage of a broker's logs on a real disk: files, flusher thread, threads of group commit.

Opened before anything is recovered, closed after everything that appends. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from josefine_broker.base.errors import Fatal
from josefine_broker.base.ids import TopicPartition
from josefine_broker.base.ports import Clock
from josefine_broker.host.disk.data_dir import boot_id
from josefine_broker.host.disk.files import RealFiles
from josefine_broker.host.disk.flusher import Flusher, Job
from josefine_broker.host.disk.sync_pipes import open_pipes
from josefine_broker.host.disk.sync_threads import SyncThreads
from josefine_broker.host.gc_freeze import Freezer
from josefine_broker.host.latencies import Latencies
from josefine_broker.host.log.group_sync import GroupSync
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.replica_manager import Hosting

CLOSE_THREADS = 8

log = logging.getLogger(__name__)


class LogStorage:
    """Created on the event loop that owns the logs."""

    def __init__(self, directory: Path, open_max: int, clock: Clock) -> None:
        """`open_max`: limit of descriptors. Raises OSError."""
        loop = asyncio.get_running_loop()

        def failed(error: BaseException) -> None:  # on the flusher's thread, or one that syncs
            loop.call_soon_threadsafe(_disk_job_failed, error)

        files = RealFiles(directory, open_max=open_max)
        self.syncs: Latencies = files.open_files.syncs
        self._flusher = Flusher(failed)
        self._threads = SyncThreads(loop, failed)
        self._pipes = open_pipes(loop, _disk_job_failed)
        if self._pipes is not None:
            self._flusher.before_wait = self._pipes.wait_for_all
        self._group = GroupSync(loop.call_soon, self._threads.submit, self._pipes)
        self.manager = LogManager(
            files,
            schedule=self._flusher.submit,
            close_threads=CLOSE_THREADS,
            boot_id=boot_id(),
            group=self._group,
        )
        self.hosting = Hosting(self.manager, clock, Freezer().opened)

    def when_synced(
        self,
        hear: Callable[[TopicPartition], None],
        within: Callable[[Job], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`hear` is called on the event loop after each group sync, with the log's partition;
        `within` calls a function that does so for all syncs which ended by then; `on_fatal` is
        called with an error."""

        def guarded(work: Job) -> None:
            try:
                within(work)
            except (Exception, Fatal) as error:
                on_fatal(error)

        self._group.on_synced = hear
        self._threads.within = guarded
        if self._pipes is not None:
            self._pipes.within = guarded

    async def stop(self) -> None:
        """Finish every started sync and flusher job."""
        if self._pipes is not None:
            await self._pipes.stop()
        await asyncio.to_thread(self._threads.stop)
        await asyncio.to_thread(self._flusher.stop)


def _disk_job_failed(error: BaseException) -> None:
    """The failed log knows and refuses further writes; here the error is only logged."""
    log.error("disk job failed", exc_info=error)
