"""How far each journal was read, and its last sequence number there: so that the next question
begins there. Values and a bounded table, no I/O.

A log's past does not change while its topic is the same one: a topic that was deleted and made
again has another id, and a log that is shorter than what is remembered is another log.
"""

from collections import OrderedDict
from dataclasses import dataclass
from uuid import UUID

from josefine_journal.events import SeqNr
from josefine_journal.reduction import Last

JOURNALS_MAX = 10_000
"""The one that was not asked for longest is forgotten first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """All of a journal's actions below `end_offset` of its partition."""

    end_offset: int
    last: Last | None
    lost_to: int = 0
    """How far the log's loss still matters to it."""
    passed_to: int = 0
    """How far the store had passed over lost records: where it did since, it is no more known."""

    @property
    def pointer(self) -> SeqNr | None:
        return None if self.last is None else self.last.seq_nr


class Remembered:
    """Of the journals of one topic, by their encoded ids."""

    def __init__(self, journals_max: int = JOURNALS_MAX) -> None:
        self._journals_max = journals_max
        self._folded: OrderedDict[bytes, tuple[UUID | None, Folded]] = OrderedDict()

    def get(self, key: bytes, topic_id: UUID | None, end_offset: int | None) -> Folded | None:
        """What is remembered of a log of that topic that reaches that far; None: as it may."""
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
