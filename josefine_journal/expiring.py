"""The job that purges journals which expired. The store says which, the topic takes the purges.

Rule: a purge counts only if the append that says so is still the journal's last at the purge's
place in the log, so whatever was written meanwhile, replicated or not, keeps its journal; two of
these at work, or one that died on the way, purge nothing twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from josefine_broker.client.io_asyncio import AsyncClient
from josefine_journal.delta_store import DeltaStore
from josefine_journal.journals import Journals
from josefine_journal.queries import expired


def expiring(
    client: AsyncClient, store: DeltaStore, partitions: Sequence[int]
) -> Callable[[], Awaitable[int]]:
    """The job for the topic of a store, to be called now and then."""
    journals = Journals(client, store.topic, origin="josefine-expiry")

    async def job() -> int:
        now_ms = journals.clock_ms()
        snapshot = await asyncio.to_thread(store.snapshot, partitions)
        return await expire(journals, lambda each: expired(snapshot, each, now_ms), partitions)

    return job


async def expire(
    journals: Journals,
    over: Callable[[int], Iterator[tuple[str, int]]],
    partitions: Sequence[int],
) -> int:
    """How many journals were asked to go. `over` gives those of a partition that are over, and
    where the last append of each stands."""
    count = 0
    for partition in partitions:
        found = await asyncio.to_thread(list, over(partition))
        for key, offset in found:
            await journals.journal(key).purge(expected_offset=offset)
            count += 1
    return count
