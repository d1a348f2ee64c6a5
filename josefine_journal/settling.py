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
        self._lasts: OrderedDict[tuple[int, str], tuple[Last | None, int]] = OrderedDict()
        """With how far the log's loss still matters to it."""

    def batch(self, snapshot: Snapshot, taken: Taken) -> Batch:
        """What one commit does to the partition."""
        return Batch(
            partition=taken.partition,
            begin=taken.begin,
            end=taken.end,
            records=self._rows(snapshot, taken),
            lost_to=0 if taken.lost is None else taken.lost.end,
        )

    def _rows(self, snapshot: Snapshot, taken: Taken) -> list[tuple[str, ActionRecord]]:
        partition = taken.partition
        asking = {key for key, records in taken.by_key.items() if asks_for_last(records)}
        unknown = sorted(key for key in asking if (partition, key) not in self._lasts)
        asked = snapshot.lasts(partition, unknown) if unknown else {}
        rows: list[tuple[str, ActionRecord]] = []
        for key, records in taken.by_key.items():
            known = (partition, key)
            last, lost_to = self._lasts.get(known) or (
                asked.get(key),
                lost_to_of(snapshot, partition, key, asked.get(key)),
            )
            settled = settle(records, last, lost_to)
            rows += ((key, record) for record in settled.records)
            if key in asking or known in self._lasts:
                self._lasts[known] = settled.last, settled.lost_to
                self._lasts.move_to_end(known)
        while len(self._lasts) > LASTS_MAX:
            self._lasts.popitem(last=False)
        return rows

    def forget(self, partitions: Collection[int]) -> None:
        """What was known of them stands in the store."""
        for known in [each for each in self._lasts if each[0] in partitions]:
            del self._lasts[known]


def lost_to_of(snapshot: Snapshot, partition: int, key: str, last: Last | None) -> int:
    """How far the log's loss matters to a journal: not where a purge followed it."""
    lost_to = snapshot.lost_to(partition)
    if lost_to and last is None and snapshot.outline(partition, key).begin_offset >= lost_to:
        return 0
    return lost_to
