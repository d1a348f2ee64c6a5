"""The fold of a journal's unreplicated actions, against a journal that is kept event by event."""

from dataclasses import dataclass, field
from functools import reduce
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_journal.actions import Action, Append, Delete, Mark, PayloadType, Purge, SeqRange
from josefine_journal.events import SeqNr
from josefine_journal.head import EMPTY, Appended, Head, combine, head_of


def append(first: int, last: int) -> Append:
    numbers = SeqRange(first=SeqNr(first), last=SeqNr(last))
    return Append(range=numbers, payload_type=PayloadType.JSON)


def delete(to: int) -> Delete:
    return Delete(to=SeqNr(to))


@dataclass
class Journal:
    """Every event by itself: what the fold must amount to."""

    events: set[int] = field(default_factory=set)
    pointer: int | None = None

    def take(self, action: Action) -> None:
        match action:
            case Append(range=numbers):
                self.events |= set(range(numbers.first, numbers.last + 1))
                self.pointer = numbers.last
            case Delete(to=to):
                self.events = {each for each in self.events if each > to}
            case Purge():
                self.events, self.pointer = set(), None
            case Mark():
                pass


def actions(rng: Random, count: int) -> list[Action]:
    """A life of one journal: its writer knows the pointer, its deleter errs on both sides."""
    made: list[Action] = []
    last = 0
    for _ in range(count):
        match rng.choice("aaaddpm"):
            case "a":
                first = last + rng.randint(1, 2)
                last = first + rng.randint(0, 3)
                made.append(append(first, last))
            case "d":
                made.append(delete(max(1, last + rng.randint(-4, 3))))
            case "p":
                made.append(Purge())
                last = 0
            case "m":
                made.append(Mark(id="m"))
    return made


def fold(log: list[Action], begin: int) -> Head:
    heads = [head_of(action, offset) for offset, action in enumerate(log) if offset >= begin]
    return reduce(combine, heads, EMPTY)


def events_in(log: list[Action], begin: int) -> set[int]:
    """What a reader streams of the head from that offset on."""
    appends = [each for each in log[begin:] if isinstance(each, Append)]
    return {n for each in appends for n in range(each.range.first, each.range.last + 1)}


@settings(deadline=None, max_examples=400)
@given(seed=st.integers(0, 2**32), stored=st.integers(0, 12), again=st.integers(0, 4))
def test_store_and_head_together_are_the_journal(seed: int, stored: int, again: int) -> None:
    """Checklist row 61. The head may begin before the store ends: that much is met twice."""
    log = actions(Random(seed), 12)
    store, whole = Journal(), Journal()
    for action in log[:stored]:
        store.take(action)
    for action in log:
        whole.take(action)

    head = fold(log, max(0, stored - again))
    before = None if store.pointer is None else SeqNr(store.pointer)
    deleted = head.deleted_to(before) or 0
    kept = set() if head.purged_offset is not None else store.events
    streamed = events_in(log, head.appended.first_offset) if head.appended else set()

    assert head.pointer(before) == whole.pointer
    assert {each for each in kept | streamed if each > deleted} == whole.events


@settings(deadline=None, max_examples=300)
@given(seed=st.integers(0, 2**32), cuts=st.tuples(st.integers(0, 12), st.integers(0, 12)))
def test_heads_combine_in_any_pieces(seed: int, cuts: tuple[int, int]) -> None:
    log = actions(Random(seed), 12)
    heads = [head_of(action, offset) for offset, action in enumerate(log)]
    one, two = sorted(cuts)
    a, b, c = (reduce(combine, part, EMPTY) for part in (heads[:one], heads[one:two], heads[two:]))

    assert combine(combine(a, b), c) == combine(a, combine(b, c)) == reduce(combine, heads, EMPTY)
    assert combine(EMPTY, a) == a == combine(a, EMPTY)


CASES = [
    ("nothing", [], EMPTY),
    ("marks are nothing", [Mark(id="m")], EMPTY),
    ("the furthest delete", [delete(5), delete(3)], Head(deletes_before=SeqNr(5))),
    ("a purge forgets", [append(1, 3), delete(2), Purge()], Head(purged_offset=2)),
    ("a delete behind a purge finds nothing", [Purge(), delete(9)], Head(purged_offset=0)),
    (
        "purged, then begun anew",
        [append(1, 9), Purge(), append(1, 2)],
        Head(
            purged_offset=1,
            appended=Appended(first_offset=2, first_seq_nr=SeqNr(1), last_seq_nr=SeqNr(2)),
        ),
    ),
    (
        "a delete ahead of the data takes what is there",
        [append(4, 6), delete(100), append(7, 8)],
        Head(
            appended=Appended(first_offset=0, first_seq_nr=SeqNr(4), last_seq_nr=SeqNr(8)),
            deletes_within=SeqNr(6),
        ),
    ),
]


@pytest.mark.parametrize(("log", "head"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_a_head_is_what_its_actions_amount_to(log: list[Action], head: Head) -> None:
    assert fold(log, 0) == head


def test_a_delete_never_takes_what_was_appended_behind_it() -> None:
    """Checklist row 64. Also when what stands before the head is not known to be so short."""
    head = fold([delete(100), append(6, 7)], 0)

    assert head.deleted_to(SeqNr(5)) == 5
    assert head.deleted_to(SeqNr(7)) == 5  # the store has the append already
    assert head.deleted_to(None) is None
