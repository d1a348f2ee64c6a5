"""Replicates all topics with a prefix, together with other replicators: the shell around
`leases.py`.

Rules: topics are looked for every few seconds, so a new one needs no restart; a topic has a task
and a lease of its own; one that fails is told, given up, and tried again later, and stops no other;
who gives a topic up stores how far it looked, then drops the lease.
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
"""A topic that failed is left to others so long."""


class Sharing:
    """One replicator of many topics. `opened` makes what replicates a topic; `tell_failed` hears
    which one failed, and why."""

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
        """Those at work."""
        return sorted(self._running)

    def stop(self) -> None:
        """End behind the rounds under way and a last one of each topic."""
        self._stopping.set()

    async def run(self) -> None:
        """Until it is stopped. Raises what is no trouble of a topic or a broker."""
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
        """What is there, and which part of it is to be done here."""
        try:
            found = [each for each in await self._topics() if not each.endswith(SUFFIX)]
        except (KafkaError, OSError):
            return  # the topics that run tell it
        plan = share(found, self._leases.held, self._leases.members())
        for topic in plan.drop:
            if topic in self._work:  # else it is being opened
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
        """Until topics are looked for again, one ends, or all of it does."""
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
