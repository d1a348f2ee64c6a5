"""The job that purges journals which expired. The store says which, the topic takes the purges.

Rule: a purge counts only if the append that says so is still the journal's last at the purge's
place in the log, so whatever was written meanwhile, replicated or not, keeps its journal; two of
these at work, or one that died on the way, purge nothing twice.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from josefine_journal.journals import Journals


async def expire(
    journals: Journals,
    expired: Callable[[int], Iterator[tuple[str, int]]],
    partitions: Sequence[int],
) -> int:
    """How many journals were asked to go. `expired` gives those of a partition, and where the last
    append of each stands."""
    count = 0
    for partition in partitions:
        found = await asyncio.to_thread(list, expired(partition))
        for key, offset in found:
            await journals.journal(key).purge(expected_offset=offset)
            count += 1
    return count
