"""The archive's process: the threads and leases of the table writer, for archives."""

from __future__ import annotations

from collections.abc import Callable

from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.archive.config import LEASES, parser
from josefine_lake.archive.writer import archive_writer
from josefine_lake.writer.process import Process, Report, TableThread, Wanted


class ArchiveThread(TableThread):
    """The thread of one archive."""

    def _write(self, client: BlockingClient) -> None:
        archive_writer(self.table, client, self._env).run(self._stopping.is_set)


class ArchiveProcess(Process):
    """All archives of this process. Its writers commit the group's offsets themselves."""

    leases = LEASES
    thread = ArchiveThread

    def __init__(
        self,
        wanted: Wanted,
        open_client: Callable[[], BlockingClient],
        report: Report,
        lag_ms: int,
    ) -> None:
        self.parse = parser(lag_ms)
        super().__init__(wanted, open_client, report)
