"""The run loop of a replicator: rounds until it is stopped. The I/O shell around `replicator.py`.

Rules: an unavailable broker is retried; any other error ends the run, and the next replicator reads
again what was not committed; `stop` ends the run after a last round, which stores how far the log
was read; a cancelled run leaves that to its successor: a commit in progress is either finished by
its thread or did not happen.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.io_asyncio import monotonic_ms
from josefine_journal.delta_store import DeltaStore
from josefine_journal.merging import merge
from josefine_journal.notifying import Notifier
from josefine_journal.replicator import Round

INTERVAL_MS = 1_000
"""Pause after a round that found everything replicated. It bounds what readers must read from the
topic."""
RETRY_MS_MAX = 15_000
EXPIRE_MS = 3_600_000
VACUUM_MS = 3_600_000
VACUUM_HOURS = 24
"""How long a merged file is kept for its readers, and an unfinished one for its writer."""
FOR_EVER = {ErrorCode.unknown_topic_or_partition, ErrorCode.topic_authorization_failed}


class Rounds(Protocol):
    """A replicator: `josefine_journal.replicator.Replicator`, or the one in Spark."""

    async def round(self, now_ms: int, *, is_last: bool = False) -> Round: ...


class Replicating:
    """One run. `tell_round` is called after each round, `tell_trouble` before each wait for a
    broker; `expire` purges expired journals every `expire_ms`; `notifier` receives stored offsets.
    """

    def __init__(
        self,
        replicator: Rounds,
        store: DeltaStore,
        *,
        tell_round: Callable[[Round], None],
        tell_trouble: Callable[[Exception, int], None],
        interval_ms: int = INTERVAL_MS,
        expire: Callable[[], Awaitable[int]] | None = None,
        expire_ms: int = EXPIRE_MS,
        notifier: Notifier | None = None,
    ) -> None:
        self._replicator = replicator
        self._store = store
        self._tell_round = tell_round
        self._tell_trouble = tell_trouble
        self._interval_ms = interval_ms
        self._vacuumed_ms = monotonic_ms()
        self._expire = expire
        self._expire_ms = expire_ms
        self._expired_ms: int | None = None
        self._notifier = notifier
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Stop after the current round and a last one."""
        self._stopping.set()

    async def run(self, *, until_caught_up: bool = False) -> None:
        """Run until stopped. Raises a round's errors, except for an unavailable broker."""
        retry_ms = self._interval_ms
        while True:
            is_last = self._stopping.is_set()
            try:
                found = await self._replicator.round(monotonic_ms(), is_last=is_last)
                if self._notifier is not None:
                    self._notifier.replicated(self._store.topic, found.replicated)
                self._tell_round(found)
                await self._tidy(found)
                await self._expire_if_due(found)
            except (KafkaError, OSError) as error:
                if isinstance(error, KafkaError) and error.code in FOR_EVER:
                    raise
                if is_last:
                    return
                self._tell_trouble(error, retry_ms)
                await self._pause(retry_ms)
                retry_ms = min(2 * retry_ms, RETRY_MS_MAX)
                continue
            retry_ms = self._interval_ms
            if is_last:
                return
            if found.behind or found.overtaken:
                continue
            if until_caught_up:
                return
            await self._pause(self._interval_ms)

    async def _pause(self, pause_ms: int) -> None:
        """Wait, or until the run is stopped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_ms / 1_000):
                await self._stopping.wait()

    async def _expire_if_due(self, found: Round) -> None:
        """Only when everything is replicated: then the store knows the journals' last appends."""
        if self._expire is None or found.behind or found.overtaken:
            return
        now_ms = monotonic_ms()
        if self._expired_ms is None or now_ms - self._expired_ms >= self._expire_ms:
            self._expired_ms = now_ms
            await self._expire()

    async def _tidy(self, found: Round) -> None:
        for partition in found.committed:
            while await asyncio.to_thread(merge, self._store, partition):
                pass
        if monotonic_ms() - self._vacuumed_ms > VACUUM_MS:
            self._vacuumed_ms = monotonic_ms()
            await asyncio.to_thread(self._store.vacuum, VACUUM_HOURS)
