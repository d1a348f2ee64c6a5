"""The head of a journal: the summary of its actions that are not replicated yet.

A monoid: `combine` is associative with `EMPTY` as identity, so a head may be folded in any pieces.
Rules: a delete removes only events before its offset, however large its number is; a purge removes
everything before it, including the last sequence number. The state before the head (the store) is
not known here: `deleted_to` and `pointer` take it as an argument.
"""

from dataclasses import dataclass, replace

from josefine_journal.actions import Action, Append, Delete, Mark, Purge
from josefine_journal.events import SeqNr


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The appends of a head, after its last purge."""

    first_offset: int
    first_seq_nr: SeqNr
    last_seq_nr: SeqNr


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The summary of a journal's unreplicated actions (see the module)."""

    purged_offset: int | None = None
    """Offset of the last purge; actions before it have no effect."""
    deletes_before: SeqNr | None = None
    """The largest delete before the first append: it applies to events before the head."""
    appended: Appended | None = None
    deletes_within: SeqNr | None = None
    """The largest delete after an append, clamped to the last event at its offset."""

    def pointer(self, before: SeqNr | None) -> SeqNr | None:
        """The journal's last sequence number; `before` is the one before the head."""
        if self.purged_offset is not None:
            before = None
        return _furthest(before, None if self.appended is None else self.appended.last_seq_nr)

    def deleted_to(self, before: SeqNr | None) -> SeqNr | None:
        """The sequence number up to which events are deleted; `before` is the last number before
        the head."""
        deletes = self.deletes_before
        if deletes is None or before is None:
            return self.deletes_within
        there = before
        if self.appended is not None:  # the store may have a part of this head already
            there = SeqNr(min(there, self.appended.first_seq_nr - 1))
        reached = SeqNr(min(deletes, there))
        return _furthest(reached if reached > 0 else None, self.deletes_within)


EMPTY = Head()


def head_of(action: Action, offset: int) -> Head:
    """The head of one action at that offset."""
    match action:
        case Append(range=numbers):
            return Head(
                appended=Appended(
                    first_offset=offset, first_seq_nr=numbers.first, last_seq_nr=numbers.last
                )
            )
        case Delete(to=to):
            return Head(deletes_before=to)
        case Purge():
            return Head(purged_offset=offset)
        case Mark():
            return EMPTY


def combine(earlier: Head, later: Head) -> Head:
    """The head of both, one after the other."""
    if later.purged_offset is not None:
        return later
    if earlier.appended is None:
        is_bare = earlier.purged_offset is not None  # a delete after a purge has no effect
        deletes = None if is_bare else _furthest(earlier.deletes_before, later.deletes_before)
        return replace(later, purged_offset=earlier.purged_offset, deletes_before=deletes)
    last = earlier.appended.last_seq_nr
    deletes = later.deletes_before
    within = None if deletes is None else SeqNr(min(deletes, last))
    if later.appended is not None:
        last = SeqNr(max(last, later.appended.last_seq_nr))
    return Head(
        purged_offset=earlier.purged_offset,
        deletes_before=earlier.deletes_before,
        appended=replace(earlier.appended, last_seq_nr=last),
        deletes_within=_furthest(_furthest(earlier.deletes_within, within), later.deletes_within),
    )


def _furthest(one: SeqNr | None, other: SeqNr | None) -> SeqNr | None:
    if one is None or other is None:
        return other if one is None else one
    return SeqNr(max(one, other))
