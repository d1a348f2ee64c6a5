"""The API of a topic's entity snapshots: save, load, list, delete. It needs no broker.

Snapshots are independent of the journals: a program that purges a journal must also delete its
snapshots, and a recovery reads events from the loaded snapshot's `seq_nr + 1` on.
"""

import asyncio
import time
from collections.abc import Callable
from uuid import uuid4

from josefine_journal.entity_snapshots import (
    ALL,
    KEPT_MAX,
    Criteria,
    EntitySnapshot,
    Row,
    decoded,
    deleted,
    encoded,
    given,
    replaced,
)
from josefine_journal.errors import JournalError
from josefine_journal.events import JsonObject, Payload, SeqNr
from josefine_journal.failpoints import nothing_fails
from josefine_journal.snapshot_table import SnapshotTable
from josefine_journal.store_place import Place

VACUUM_MS = 3_600_000
VACUUM_HOURS = 24
"""How long a merged file is kept for its readers."""


class BlockingSnapshots:
    """The snapshots of one topic, in the stores' folder. Raises JournalError, OSError."""

    def __init__(
        self,
        root: Place | str,
        topic: str,
        *,
        kept_max: int = KEPT_MAX,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        at: Callable[[str], None] = nothing_fails,
    ) -> None:
        """Opens nothing. Each journal keeps the `kept_max` snapshots with the largest numbers."""
        if kept_max < 1:
            raise JournalError(f"kept_max is {kept_max}: at least one snapshot must be kept")
        self._table = SnapshotTable(root, topic, at=at)
        self._kept_max = kept_max
        self._clock_ms = clock_ms
        self._vacuumed_ms = clock_ms()

    def save(
        self, key: str, seq_nr: int, payload: Payload | None, metadata: JsonObject | None = None
    ) -> None:
        """Save the entity's state after that event; replaces an older snapshot of that number."""
        now_ms = self._clock_ms()
        saved = encoded(
            EntitySnapshot(
                seq_nr=SeqNr(seq_nr), timestamp_ms=now_ms, payload=payload, metadata=metadata
            )
        )
        gone = replaced(self._table.rows(_checked(key)), saved, self._kept_max)
        self._table.put(Row(key=key, id=uuid4().hex, saved=saved, gone=gone), now_ms)
        self._tidy(now_ms)

    def load(self, key: str, criteria: Criteria = ALL) -> EntitySnapshot | None:
        """The matching snapshot with the largest number; None: there is none."""
        found = given(self._table.rows(_checked(key)), criteria)
        return decoded(found[0]) if found else None

    def find(self, key: str, criteria: Criteria = ALL) -> list[EntitySnapshot]:
        """All matching snapshots, the largest number first."""
        return [decoded(each) for each in given(self._table.rows(_checked(key)), criteria)]

    def delete(self, key: str, criteria: Criteria = ALL) -> int:
        """Delete the matching snapshots; returns how many. Writes nothing if there are none."""
        gone = deleted(self._table.rows(_checked(key)), criteria)
        if gone:
            now_ms = self._clock_ms()
            self._table.put(Row(key=key, id=uuid4().hex, gone=gone), now_ms)
            self._tidy(now_ms)
        return len(gone)

    def _tidy(self, now_ms: int) -> None:
        if now_ms - self._vacuumed_ms > VACUUM_MS:
            self._vacuumed_ms = now_ms
            self._table.vacuum(VACUUM_HOURS)


class Snapshots:
    """`BlockingSnapshots`'s methods as coroutines."""

    def __init__(self, blocking: BlockingSnapshots) -> None:
        self._blocking = blocking

    async def save(
        self, key: str, seq_nr: int, payload: Payload | None, metadata: JsonObject | None = None
    ) -> None:
        await asyncio.to_thread(self._blocking.save, key, seq_nr, payload, metadata)

    async def load(self, key: str, criteria: Criteria = ALL) -> EntitySnapshot | None:
        return await asyncio.to_thread(self._blocking.load, key, criteria)

    async def find(self, key: str, criteria: Criteria = ALL) -> list[EntitySnapshot]:
        return await asyncio.to_thread(self._blocking.find, key, criteria)

    async def delete(self, key: str, criteria: Criteria = ALL) -> int:
        return await asyncio.to_thread(self._blocking.delete, key, criteria)


def _checked(key: str) -> str:
    """Raises JournalError for an invalid id."""
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise JournalError(f"journal id {key!r} is not valid UTF-8") from error
    if not key:
        raise JournalError("a journal's id must not be empty")
    return key
