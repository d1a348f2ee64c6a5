"""The archived topics of a broker: what their archives have, and the way to the archive reader."""

from __future__ import annotations

from josefine_broker.base.ids import TopicPartition
from josefine_broker.base.ports import Clock
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.archive_ends import ArchiveEnds
from josefine_broker.engine.replicas.archive_reads import ArchiveReads, MissingReader
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.peers.archive_client import ArchiveClient


class Archives:
    """See the module. `stop` ends its connections."""

    def __init__(
        self, ctx: Context, manager: LogManager, clock: Clock, reader_port: int | None
    ) -> None:
        """`reader_port`: of the reader on this machine; None: there is none."""
        self.ends = ArchiveEnds(ctx)
        ctx.ports.archived_end = self.ends.reached
        ctx.ports.no_archive = MissingReader(ctx)
        self._ctx = ctx
        self._manager = manager
        self._clock = clock
        self._client = None if reader_port is None else ArchiveClient(reader_port, clock)
        if self._client is not None:
            ask = self._client
            ctx.ports.archive = ArchiveReads(ctx, ask.ask, ask.ask_time, ask.ask_epoch)

    def step(self) -> None:
        """Periodic: ask what archives have, and report where retention waits for them."""
        self.ends.step()
        self.ends.look(self._held_bytes)

    def end(self, tp: TopicPartition) -> int:
        """How far retention may go in a partition of an archived topic."""
        return self.ends.bound(tp).end

    async def stop(self) -> None:
        """Close the connections to the reader."""
        if self._client is not None:
            await self._client.stop()

    def _held_bytes(self, tp: TopicPartition) -> int:
        """The bytes that retention would delete if no archive had to be waited for."""
        log, hosted = self._manager.get(tp), self._ctx.hosted.partitions.get(tp)
        if log is None or hosted is None:
            return 0
        return log.held_bytes(self._clock.now_ms(), hosted.partition.high_watermark)
