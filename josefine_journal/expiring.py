"""The job that purges expired journals: it finds them in the store and writes purges to the topic.

Rule: a purge is valid only if the append with the expiry is still the journal's last one at the
purge's offset. So any append in between, replicated or not, keeps its journal alive; two concurrent
jobs, or one that crashed, purge nothing twice.
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
    """The job for the topic of a store, to be called periodically."""
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
    """Purge expired journals; returns how many purges were written. `over` returns a partition's
    expired journals with the offset of the last append of each."""
    count = 0
    for partition in partitions:
        found = await asyncio.to_thread(list, over(partition))
        for key, offset in found:
            await journals.journal(key).purge(expected_offset=offset)
            count += 1
    return count
