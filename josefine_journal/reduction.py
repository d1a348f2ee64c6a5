"""What of one journal's actions the store has to do: the rules of replication, for any writer.

Rules (one journal, in the order of the log): marks are nothing; an append whose writer expected
another last sequence number than was there is refused, by every reader alike, and so is a purge
whose writer expected another last append; what stands before a purge is nothing; of deletes in a
row the furthest is enough; of the appends that a later delete covers whole only the last before it
is kept, for it has the journal's sequence number and metadata.
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
    """A journal's last sequence number, and where the last of its appends that count stands."""

    seq_nr: SeqNr
    offset: int


def counts(placed: Placed, last: Last | None, lost_to: int = 0) -> bool:
    """False: it expected something else than `last`, which is the journal's before it.

    Where records below `lost_to` are lost and `last` is from before them, the number may be a later
    one: an append that expects a later one is proof of it. A smaller one was refused.
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
    """The journal's last behind an action that counts."""
    match placed.action:
        case Append(range=numbers):
            furthest = numbers.last if last is None else SeqNr(max(last.seq_nr, numbers.last))
            return Last(seq_nr=furthest, offset=placed.offset)
        case Purge():
            return None
        case _:
            return last


def accepted(actions: Iterable[Placed], last: Last | None) -> list[Placed]:
    """Without those whose expectation is not met; `last` is the journal's before them."""
    taken = []
    for placed in actions:
        if counts(placed, last):
            last = behind(placed, last)
            taken.append(placed)
    return taken


def reduced(actions: Iterable[Placed]) -> list[Placed]:
    """The least of accepted actions that leaves the store as all of them would."""
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
    """Without the appends that are covered whole, but for the last of all."""
    appends = [each for each in kept if isinstance(each.action, Append)]
    last = appends[-1] if appends else None
    return [each for each in kept if each is last or not _is_covered(each.action, to)]


def _is_covered(action: Action, to: SeqNr) -> bool:
    return isinstance(action, Append) and action.range.last <= to


def _one_delete(kept: list[Placed]) -> list[Placed]:
    """Of deletes with nothing between them, the furthest: the later one where both reach as far."""
    result: list[Placed] = []
    for placed in kept:
        before = result[-1].action if result else None
        if isinstance(placed.action, Delete) and isinstance(before, Delete):
            if placed.action.to < before.to:
                continue
            result.pop()
        result.append(placed)
    return result
