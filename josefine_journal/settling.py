"""Rows for the store out of what was taken of a log; the store is asked for a journal's last only
where its rows need it, and what it said is remembered.
"""

from collections import OrderedDict
from collections.abc import Collection

from josefine_journal.ports import Batch, Snapshot
from josefine_journal.records import ActionRecord
from josefine_journal.reduction import Last
from josefine_journal.resolving import asks_for_last, settle
from josefine_journal.taking import Taken

LASTS_MAX = 100_000
"""Journals whose last is known without asking the store."""


class Settling:
    """Of some partitions; the store is written by nobody else, or this is told to `forget`."""

    def __init__(self) -> None:
        self._lasts: OrderedDict[tuple[int, str], Last | None] = OrderedDict()

    def batch(self, snapshot: Snapshot, taken: Taken) -> Batch:
        """What one commit does to the partition."""
        rows = self._rows(snapshot, taken)
        return Batch(partition=taken.partition, begin=taken.begin, end=taken.end, records=rows)

    def _rows(self, snapshot: Snapshot, taken: Taken) -> list[tuple[str, ActionRecord]]:
        partition = taken.partition
        asking = {key for key, records in taken.by_key.items() if asks_for_last(records)}
        unknown = sorted(key for key in asking if (partition, key) not in self._lasts)
        asked = snapshot.lasts(partition, unknown) if unknown else {}
        rows: list[tuple[str, ActionRecord]] = []
        for key, records in taken.by_key.items():
            known = (partition, key)
            settled = settle(records, self._lasts.get(known, asked.get(key)))
            rows += ((key, record) for record in settled.records)
            if key in asking or known in self._lasts:
                self._lasts[known] = settled.last
                self._lasts.move_to_end(known)
        while len(self._lasts) > LASTS_MAX:
            self._lasts.popitem(last=False)
        return rows

    def forget(self, partitions: Collection[int]) -> None:
        """What was known of them stands in the store."""
        for known in [each for each in self._lasts if each[0] in partitions]:
            del self._lasts[known]
