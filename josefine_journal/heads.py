"""The loader of the head cache: the I/O shell around `head_cache.py`.

Rules: one reader at a time loads a partition, the others wait and use the records it loads; a
reader waits for the cache at most a second and then reads by itself from the cache's end; an error
of the log is not raised here but by the read without the cache, which reports its place.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from josefine_broker.base.errors import KafkaError
from josefine_broker.client.io_asyncio import monotonic_ms
from josefine_broker.records.builder import Record
from josefine_journal.calls import Calls
from josefine_journal.errors import JournalError
from josefine_journal.head_cache import HeadCache
from josefine_journal.ports import Log

WAIT_S_MAX = 1.0


class Heads:
    """The head cache of one topic, for one event loop."""

    def __init__(
        self,
        log: Log,
        cache: HeadCache,
        clock_ms: Callable[[], int] = monotonic_ms,
        calls: Calls | None = None,
        wait_s: float = WAIT_S_MAX,
    ) -> None:
        self._wait_s = wait_s
        self._calls = calls
        self._log = log
        self._cache = cache
        self._clock_ms = clock_ms
        self._turns: dict[int, asyncio.Lock] = {}

    def replicated(self, partition: int, end: int) -> None:
        """The store has the records before `end` now."""
        self._cache.replicated(partition, end)

    async def records(
        self, partition: int, key: bytes, begin: int, end: int, *, rewinds: bool
    ) -> tuple[list[Record], int]:
        """A journal's records from `begin` on, and the offset up to which they are complete, which
        is before `end` on a cache miss. `rewinds`: other readers will need this part too."""
        turn = self._turns.setdefault(partition, asyncio.Lock())
        try:
            async with asyncio.timeout(self._wait_s), turn:
                await self._read_on(partition, begin, end, rewinds)
        except TimeoutError:
            pass
        except (JournalError, KafkaError):
            self._cache.forget(partition)
        found = self._cache.head(partition, key, begin, end)
        if self._calls is not None:
            self._calls.cached(self._log.topic, is_hit=found[1] >= end)
        return found

    async def _read_on(self, partition: int, begin: int, end: int, rewinds: bool) -> None:
        at = self._cache.resume(
            partition, self._log.topic_id, begin, self._clock_ms(), rewinds=rewinds
        )
        if at >= end:
            return
        async with aclosing(self._log.read(partition, at, end)) as parts:
            async for records in parts:
                self._cache.take(partition, records)
        self._cache.reach(partition, end)
