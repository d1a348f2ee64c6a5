"""The archive's process: the threads and leases of the table writer, for archives."""

from __future__ import annotations

from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.archive.config import LEASES, parser
from josefine_lake.archive.writer import archive_writer
from josefine_lake.writer.process import Service, TableThread


class ArchiveThread(TableThread):
    """The thread of one archive. Its writer commits the group's offsets itself."""

    def _write(self, client: BlockingClient) -> None:
        archive_writer(self.table, client, self._env, self._stats).run(self._stopping.is_set)


def archives(lag_ms: int) -> Service:
    """The service of `josefine archive run` with this target lag."""
    return Service(leases=LEASES, parse=parser(lag_ms), thread=ArchiveThread)
