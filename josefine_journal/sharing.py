"""The replication of all topics with a prefix, shared among replicators: the I/O shell around
`leases.py`.

Rules: topics are listed every few seconds, so a new one needs no restart; each topic has its own
task and lease; a failed topic is reported, released, and retried later, and stops no other topic; a
replicator that releases a topic first stores how far it has read, then drops the lease.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from josefine_broker.base.errors import KafkaError
from josefine_broker.client.io_asyncio import monotonic_ms
from josefine_journal.dead_letters import SUFFIX
from josefine_journal.errors import JournalError
from josefine_journal.leases import Leases, share
from josefine_journal.replicating import Replicating

DISCOVERY_MS = 3_000
FAILED_MS = 15_000
"""How long a failed topic is left to other replicators."""


class Sharing:
    """One replicator of many topics. `opened` creates the run of a topic; `tell_failed` is called
    with a failed topic and its error."""

    def __init__(
        self,
        leases: Leases,
        *,
        topics: Callable[[], Awaitable[Sequence[str]]],
        opened: Callable[[str], Awaitable[Replicating]],
        tell_failed: Callable[[str, Exception], None],
        discovery_ms: int = DISCOVERY_MS,
        failed_ms: int = FAILED_MS,
    ) -> None:
        self._leases = leases
        self._topics = topics
        self._opened = opened
        self._tell_failed = tell_failed
        self._discovery_ms = discovery_ms
        self._failed_ms = failed_ms
        self._running: dict[str, asyncio.Task[None]] = {}
        self._work: dict[str, Replicating] = {}
        self._failed: dict[str, int] = {}
        self._stopping = asyncio.Event()

    @property
    def topics(self) -> Sequence[str]:
        """The topics that this replicator replicates now."""
        return sorted(self._running)

    def stop(self) -> None:
        """Stop after the current round and a last one of each topic."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until stopped. Raises errors that are not those of a topic or a broker."""
        try:
            while not self._stopping.is_set():
                await self._look()
                await self._pause()
            for work in self._work.values():
                work.stop()
            while self._running:
                await self._pause()
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)
            self._leases.close()

    async def _look(self) -> None:
        """List the topics, and take or release leases to match this replicator's share."""
        try:
            found = [each for each in await self._topics() if not each.endswith(SUFFIX)]
        except (KafkaError, OSError):
            return  # the running topics report the error
        plan = share(found, self._leases.held, self._leases.members())
        for topic in plan.drop:
            if topic in self._work:  # otherwise it is still being opened
                self._work[topic].stop()
        room = plan.room
        for topic in plan.take:
            if room > 0 and not self._is_failed(topic) and self._leases.take(topic):
                room -= 1
                self._running[topic] = asyncio.create_task(self._replicate(topic))

    def _is_failed(self, topic: str) -> bool:
        failed_ms = self._failed.get(topic)
        return failed_ms is not None and monotonic_ms() - failed_ms < self._failed_ms

    async def _replicate(self, topic: str) -> None:
        work = self._work[topic] = await self._opened(topic)
        await work.run()

    async def _pause(self) -> None:
        """Wait for the next listing, the end of a topic's run, or the stop."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        ends = [stopping] if not self._stopping.is_set() else []
        pause_s = self._discovery_ms / 1_000
        waited: list[asyncio.Future[object]] = [*ends, *self._running.values()]  # type: ignore[list-item]
        if waited:
            await asyncio.wait(waited, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for topic in [each for each, task in self._running.items() if task.done()]:
            self._end(topic)

    def _end(self, topic: str) -> None:
        task = self._running.pop(topic)
        self._work.pop(topic, None)
        self._leases.drop(topic)
        error = task.exception()
        if isinstance(error, JournalError | KafkaError | OSError):
            self._failed[topic] = monotonic_ms()
            self._tell_failed(topic, error)
        elif error is not None:
            raise error
