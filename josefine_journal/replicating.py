"""A replicator at work: round after round, until it is stopped. The shell around `replicator.py`.

Rules: a broker that does not answer is waited for; whatever else a round raises ends it, and what
it had not committed is read again by who begins next; who is stopped ends behind a last round,
which stores how far it looked; who is cancelled leaves that to its successor: a commit under way is
finished by its thread, or is not there.
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
"""Between rounds that found everything replicated: what readers read of the topic meanwhile."""
RETRY_MS_MAX = 15_000
EXPIRE_MS = 3_600_000
VACUUM_MS = 3_600_000
VACUUM_HOURS = 24
"""How long a merged file stays for a reader that is at it, and an unfinished one for its writer."""
FOR_EVER = {ErrorCode.unknown_topic_or_partition, ErrorCode.topic_authorization_failed}


class Rounds(Protocol):
    """A replicator: `josefine_journal.replicator`'s, or the one in Spark."""

    async def round(self, now_ms: int, *, is_last: bool = False) -> Round: ...


class Replicating:
    """One run. `tell_round` after each round, `tell_trouble` before each wait for a broker;
    `expire` purges what expired, as often as `expire_ms` says; `notifier` hears what is stored."""

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
        """End behind the round under way and a last one."""
        self._stopping.set()

    async def run(self, *, until_caught_up: bool = False) -> None:
        """Raises what a round raises, but for a broker that is away."""
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
        """So long, or until it is stopped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_ms / 1_000):
                await self._stopping.wait()

    async def _expire_if_due(self, found: Round) -> None:
        """Where all is replicated: the store knows the journals' last appends then."""
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
