"""The resolver of a partition's records into rows, with a cache of the journals' last sequence
numbers: the store is queried only for journals whose rows need theirs.
"""

from collections import OrderedDict
from collections.abc import Collection

from josefine_journal.ports import Batch, Snapshot
from josefine_journal.records import ActionRecord
from josefine_journal.reduction import Last
from josefine_journal.resolving import asks_for_last, settle
from josefine_journal.taking import Taken

LASTS_MAX = 100_000
"""Size of the cache of last sequence numbers."""


class Settling:
    """The resolver of some partitions. After a commit of another process, call `forget`."""

    def __init__(self) -> None:
        self._lasts: OrderedDict[tuple[int, str], tuple[Last | None, int]] = OrderedDict()
        """(last, end of the lost range that still matters), by partition and journal."""

    def batch(self, snapshot: Snapshot, taken: Taken) -> Batch:
        """The part of one commit for the partition."""
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
        """Drop the cached entries of these partitions; they are read from the store again."""
        for known in [each for each in self._lasts if each[0] in partitions]:
            del self._lasts[known]


def lost_to_of(snapshot: Snapshot, partition: int, key: str, last: Last | None) -> int:
    """End of the lost range that matters to a journal: 0 if a purge followed it."""
    lost_to = snapshot.lost_to(partition)
    if lost_to and last is None and snapshot.outline(partition, key).begin_offset >= lost_to:
        return 0
    return lost_to
