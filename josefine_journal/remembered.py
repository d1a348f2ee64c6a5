"""A bounded cache of how far each journal was read, with its last sequence number there, from which
the next read starts. Values, no I/O.

A log's past does not change while the topic exists: a topic that was deleted and created again has
another id, and a log that is shorter than the remembered offset is another log.
"""

from collections import OrderedDict
from dataclasses import dataclass
from uuid import UUID

from josefine_journal.events import SeqNr
from josefine_journal.reduction import Last

JOURNALS_MAX = 10_000
"""Size of the cache; the least recently used journal is evicted first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The summary of a journal's actions below `end_offset` of its partition."""

    end_offset: int
    last: Last | None
    lost_to: int = 0
    """End of the lost range that still matters to the journal."""
    passed_to: int = 0
    """End of the lost range that the store had skipped at that time; if the store has skipped more
    since, this entry is not valid any more."""

    @property
    def pointer(self) -> SeqNr | None:
        return None if self.last is None else self.last.seq_nr


class Remembered:
    """The cache of one topic's journals, by their encoded ids."""

    def __init__(self, journals_max: int = JOURNALS_MAX) -> None:
        self._journals_max = journals_max
        self._folded: OrderedDict[bytes, tuple[UUID | None, Folded]] = OrderedDict()

    def get(self, key: bytes, topic_id: UUID | None, end_offset: int | None) -> Folded | None:
        """The entry, if it has that topic id and is not beyond `end_offset` (None: not checked)."""
        if key not in self._folded:
            return None
        self._folded.move_to_end(key)
        of_topic, folded = self._folded[key]
        is_there = end_offset is None or folded.end_offset <= end_offset
        return folded if of_topic == topic_id and is_there else None

    def put(self, key: bytes, topic_id: UUID | None, folded: Folded) -> None:
        self._folded[key] = (topic_id, folded)
        self._folded.move_to_end(key)
        if len(self._folded) > self._journals_max:
            self._folded.popitem(last=False)

    def forget(self, key: bytes) -> None:
        self._folded.pop(key, None)
