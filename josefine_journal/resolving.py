"""The resolution of one journal's actions into rows of the store. Decides, no I/O.

Rules: rows are resolved, so that a reader of the store needs only the rows of one journal: refused
appends are left out; a delete has the last sequence number that existed at its offset, and a delete
without effect is left out; an append that a delete covers completely has no value; tags and expiry
of an append are columns of their own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from josefine_journal.actions import Append, Delete, Mark, Purge
from josefine_journal.describing import described
from josefine_journal.events import SeqNr
from josefine_journal.records import ActionRecord
from josefine_journal.reduction import Last, behind, counts, reduced


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The resolved records, and the journal's last sequence number after them (None: none)."""

    records: tuple[ActionRecord, ...]
    last: Last | None
    lost_to: int
    """End of the lost range that still matters to this journal."""


def asks_for_last(records: Iterable[ActionRecord]) -> bool:
    """Whether the journal's last sequence number before these records is needed."""
    for record in records:
        match record.action:
            case Delete() | Append(expected_seq_nr=int()) | Purge(expected_offset=int()):
                return True
            case Purge():
                return False
            case _:
                pass
    return False


def settle(records: Sequence[ActionRecord], last: Last | None, lost_to: int = 0) -> Settled:
    """Resolve one journal's records, in the order of the log; `last` is the journal's state before
    them, and `lost_to` the end (exclusive) of the log's lost range (0: none, or a purge followed).

    If `asks_for_last` is false, the result does not depend on `last`.
    """
    taken: dict[int, ActionRecord] = {}
    for record in records:
        if not counts(record.placed, last, lost_to):
            continue
        match record.action:
            case Append():
                record = described(record)
            case Purge():
                # Its condition was met here: a reader of the store must not judge it again.
                record = replace(record, action=replace(record.action, expected_offset=None))
                lost_to = 0
            case Delete(to=to) if last is not None:
                # Clamped to what existed, so that it cannot remove events appended after it.
                clamped = replace(record.action, to=SeqNr(min(to, last.seq_nr)))
                record = replace(record, action=clamped)
            case Delete() | Mark():
                continue
        last = behind(record.placed, last)
        taken[record.offset] = record
    return Settled(records=least(taken.values()), last=last, lost_to=lost_to)


def least(records: Iterable[ActionRecord]) -> tuple[ActionRecord, ...]:
    """The fewest of these adjacent resolved records that lead to the same store."""
    by_offset = {record.offset: record for record in records}
    kept = [by_offset[each.offset] for each in reduced(r.placed for r in by_offset.values())]
    deleted_to = 0
    result: list[ActionRecord] = []
    for record in reversed(kept):  # a purge comes first, so all numbers after it are one history
        action = record.action
        if isinstance(action, Delete):
            deleted_to = max(deleted_to, action.to)
        if isinstance(action, Append) and action.range.last <= deleted_to:
            record = replace(record, value=None, tags=())
        result.append(record)
    return tuple(reversed(result))
