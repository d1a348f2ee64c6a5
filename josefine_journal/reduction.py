"""The rules of replication: which of a journal's actions are valid, and which the store needs.

Rules (one journal, in the order of the log): marks have no effect; an append that expected another
last sequence number than the journal had is refused, by every reader alike, and so is a purge that
expected another last append; actions before a purge have no effect; of adjacent deletes the largest
is sufficient; of the appends that a later delete covers completely only the last one is kept,
because it has the journal's sequence number and metadata.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from josefine_journal.actions import Action, Append, Delete, Mark, Purge
from josefine_journal.events import SeqNr


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An action and its place in the log."""

    offset: int
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """A journal's last sequence number, and the offset of its last valid append."""

    seq_nr: SeqNr
    offset: int


def counts(placed: Placed, last: Last | None, lost_to: int = 0) -> bool:
    """Whether an action is valid: not if it expected something else than `last`, which is the
    journal's state before it.

    If records below `lost_to` are lost and `last` is older than they are, the journal's real number
    may be larger: an append that expects a larger one proves it. One that expects a smaller number
    was refused in any case.
    """
    match placed.action:
        case Append(expected_seq_nr=int(expected)):
            known = 0 if last is None else last.seq_nr
            is_least = lost_to > (0 if last is None else last.offset)
            return expected == known or (is_least and expected > known)
        case Purge(expected_offset=int(expected)):
            return last is not None and last.offset == expected
        case _:
            return True


def behind(placed: Placed, last: Last | None) -> Last | None:
    """The journal's last sequence number after a valid action."""
    match placed.action:
        case Append(range=numbers):
            furthest = numbers.last if last is None else SeqNr(max(last.seq_nr, numbers.last))
            return Last(seq_nr=furthest, offset=placed.offset)
        case Purge():
            return None
        case _:
            return last


def reduced(actions: Iterable[Placed]) -> list[Placed]:
    """The fewest of the valid actions that lead to the same store as all of them."""
    kept: list[Placed] = []
    for placed in actions:
        match placed.action:
            case Mark():
                continue
            case Purge():
                kept = [placed]
            case Delete(to=to):
                kept = [*_behind_delete(kept, to), placed]
                kept = _one_delete(kept)
            case Append():
                kept.append(placed)
    return kept


def _behind_delete(kept: list[Placed], to: SeqNr) -> list[Placed]:
    """Without the appends that the delete covers completely, except for the last one of all."""
    appends = [each for each in kept if isinstance(each.action, Append)]
    last = appends[-1] if appends else None
    return [each for each in kept if each is last or not _is_covered(each.action, to)]


def _is_covered(action: Action, to: SeqNr) -> bool:
    return isinstance(action, Append) and action.range.last <= to


def _one_delete(kept: list[Placed]) -> list[Placed]:
    """Of adjacent deletes the one with the larger number; the later one if they are equal."""
    result: list[Placed] = []
    for placed in kept:
        before = result[-1].action if result else None
        if isinstance(placed.action, Delete) and isinstance(before, Delete):
            if placed.action.to < before.to:
                continue
            result.pop()
        result.append(placed)
    return result
