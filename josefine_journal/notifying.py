"""Notification of waiters that the store has an offset of the log.

Rule: waiters are notified after the commit, never before it, so a reader that opens the store then
finds the rows; it makes no difference which replicator committed.
"""

import asyncio
from collections.abc import Mapping

from josefine_journal.errors import JournalError
from josefine_journal.ports import Store
from josefine_journal.records import PartitionOffset

WAIT_S = 30.0
POLL_S = 0.1
"""Poll interval for a store that another process writes; one poll is one file lookup."""


class Notifier:
    """Notifications of this process's replicators, for one event loop and any number of topics."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], int] = {}
        self._waiting: dict[tuple[str, int], list[tuple[int, asyncio.Future[None]]]] = {}

    def replicated(self, topic: str, ends: Mapping[int, int]) -> None:
        """Notify: the store has these partitions up to their ends (exclusive)."""
        for partition, end in ends.items():
            where = topic, partition
            self._ends[where] = end
            waiting = self._waiting.pop(where, [])
            for offset, waiter in waiting:
                if offset < end and not waiter.done():
                    waiter.set_result(None)
            if rest := [each for each in waiting if not each[1].done()]:
                self._waiting[where] = rest

    async def reached(self, topic: str, place: PartitionOffset, timeout_s: float = WAIT_S) -> None:
        """Wait until the store has that offset. Raises JournalError after the timeout."""
        where = topic, place.partition
        if place.offset < self._ends.get(where, 0):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(where, []).append((place.offset, waiter))
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            raise _late(topic, place, timeout_s, self._ends.get(where, 0)) from None


async def stored(store: Store, topic: str, place: PartitionOffset, timeout_s: float) -> None:
    """As `Notifier.reached`, for a store that any process writes."""
    end = 0
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                snapshot = await asyncio.to_thread(store.snapshot, (place.partition,))
                end = snapshot.replicated(place.partition) or 0
                if place.offset < end:
                    return
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise _late(topic, place, timeout_s, end) from None


def _late(topic: str, place: PartitionOffset, timeout_s: float, end: int) -> JournalError:
    return JournalError(
        f"{topic}-{place.partition} offset {place.offset} was not replicated within "
        f"{timeout_s:g} s: the store has the partition up to {end}"
    )
