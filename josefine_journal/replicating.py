"""A replicator at work: round after round, until it is stopped. The shell around `replicator.py`.

Rules: a broker that does not answer is waited for; whatever else a round raises ends it, and what
it had not committed is read again by who begins next; to stop it, cancel it: a commit under way is
finished by its thread, or is not there.
"""

import asyncio
from collections.abc import Callable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.io_asyncio import monotonic_ms
from josefine_journal.delta_store import DeltaStore
from josefine_journal.merging import merge
from josefine_journal.replicator import Replicator, Round

INTERVAL_MS = 1_000
"""Between rounds that found everything replicated: what readers read of the topic meanwhile."""
RETRY_MS_MAX = 15_000
VACUUM_MS = 3_600_000
VACUUM_HOURS = 24
"""How long a merged file stays for a reader that is at it, and an unfinished one for its writer."""
FOR_EVER = {ErrorCode.unknown_topic_or_partition, ErrorCode.topic_authorization_failed}


class Replicating:
    """One run. `tell_round` after each round, `tell_trouble` before each wait for a broker."""

    def __init__(
        self,
        replicator: Replicator,
        store: DeltaStore,
        *,
        tell_round: Callable[[Round], None],
        tell_trouble: Callable[[Exception, int], None],
        interval_ms: int = INTERVAL_MS,
    ) -> None:
        self._replicator = replicator
        self._store = store
        self._tell_round = tell_round
        self._tell_trouble = tell_trouble
        self._interval_ms = interval_ms
        self._vacuumed_ms = monotonic_ms()

    async def run(self, *, until_caught_up: bool = False) -> None:
        """Raises what a round raises, but for a broker that is away."""
        retry_ms = self._interval_ms
        while True:
            try:
                found = await self._replicator.round(monotonic_ms())
            except (KafkaError, OSError) as error:
                if isinstance(error, KafkaError) and error.code in FOR_EVER:
                    raise
                self._tell_trouble(error, retry_ms)
                await asyncio.sleep(retry_ms / 1_000)
                retry_ms = min(2 * retry_ms, RETRY_MS_MAX)
                continue
            retry_ms = self._interval_ms
            self._tell_round(found)
            await self._tidy(found)
            if found.behind or found.overtaken:
                continue
            if until_caught_up:
                return
            await asyncio.sleep(self._interval_ms / 1_000)

    async def _tidy(self, found: Round) -> None:
        for partition in found.committed:
            while await asyncio.to_thread(merge, self._store, partition):
                pass
        if monotonic_ms() - self._vacuumed_ms > VACUUM_MS:
            self._vacuumed_ms = monotonic_ms()
            await asyncio.to_thread(self._store.vacuum, VACUUM_HOURS)
