"""What the store takes of one journal's actions in a batch of the log. Decides, no I/O.

Rules: what the store has is settled, so no reader of it asks for more than rows of one journal: an
append that is refused is not there; a delete names the last sequence number that was there at its
place, and one that found nothing is not there; an append that a delete covers whole has no value;
what an append says of tags and expiry stands beside its value.
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
    """What the store is given, and the journal's last behind it (None: none)."""

    records: tuple[ActionRecord, ...]
    last: Last | None
    lost_to: int
    """As far as it still matters to this journal."""


def asks_for_last(records: Iterable[ActionRecord]) -> bool:
    """Whether settling these needs the journal's last before them."""
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
    """One journal's records, in the order of the log; `last` is the journal's before them, and
    `lost_to` the exclusive end of what is lost of the log (0: nothing, or a purge followed).

    Where `asks_for_last` says no, any last gives the same records.
    """
    taken: dict[int, ActionRecord] = {}
    for record in records:
        if not counts(record.placed, last, lost_to):
            continue
        match record.action:
            case Append():
                record = described(record)
            case Purge():
                record = replace(record, action=replace(record.action, expected_offset=None))
                lost_to = 0
            case Delete(to=to) if last is not None:
                clamped = replace(record.action, to=SeqNr(min(to, last.seq_nr)))
                record = replace(record, action=clamped)
            case Delete() | Mark():
                continue
        last = behind(record.placed, last)
        taken[record.offset] = record
    return Settled(records=least(taken.values()), last=last, lost_to=lost_to)


def least(records: Iterable[ActionRecord]) -> tuple[ActionRecord, ...]:
    """The least of settled records without a gap between them that leaves the store as they do."""
    by_offset = {record.offset: record for record in records}
    kept = [by_offset[each.offset] for each in reduced(r.placed for r in by_offset.values())]
    deleted_to = 0
    result: list[ActionRecord] = []
    for record in reversed(kept):  # a purge is the first of them: numbers below it are of one life
        action = record.action
        if isinstance(action, Delete):
            deleted_to = max(deleted_to, action.to)
        if isinstance(action, Append) and action.range.last <= deleted_to:
            record = replace(record, value=None, tags=())
        result.append(record)
    return tuple(reversed(result))
