"""Replication's rules: exactly what is left of a batch, and that the store cannot tell."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_journal.actions import Action, Append, Delete, Mark, PayloadType, Purge, SeqRange
from josefine_journal.events import SeqNr
from josefine_journal.reduction import Last, Placed, behind, counts, reduced


def append(first: int, last: int, expected: int | None = None) -> Append:
    numbers = SeqRange(first=SeqNr(first), last=SeqNr(last))
    return Append(range=numbers, payload_type=PayloadType.JSON, expected_seq_nr=expected)


def delete(to: int) -> Delete:
    return Delete(to=SeqNr(to))


def placed(actions: list[Action]) -> list[Placed]:
    return [Placed(offset=offset, action=action) for offset, action in enumerate(actions)]


def accepted(actions: list[Placed], last: Last | None) -> list[Placed]:
    """The valid actions; `last` is the journal's state before them."""
    taken = []
    for placed in actions:
        if counts(placed, last):
            last = behind(placed, last)
            taken.append(placed)
    return taken


MARK, PURGE = Mark(id="m"), Purge()

REDUCTIONS: list[tuple[str, list[Action], list[int]]] = [
    ("marks are nothing", [MARK, append(1, 1), MARK], [1]),
    ("appends stay", [append(1, 2), append(3, 3)], [0, 1]),
    ("a purge drops what is before it", [append(1, 2), delete(1), PURGE, append(1, 1)], [2, 3]),
    ("of two purges the last", [PURGE, append(1, 1), PURGE], [2]),
    ("of a run of deletes the furthest", [delete(2), delete(5), MARK, delete(3)], [1]),
    ("deletes with an append between them", [delete(2), append(6, 6), delete(3)], [0, 1, 2]),
    ("a covered append before another", [append(1, 2), append(3, 4), delete(4)], [1, 2]),
    ("a covered append that is the last", [append(1, 2), delete(2)], [0, 1]),
    ("an append covered in part", [append(1, 2), append(3, 6), delete(4)], [1, 2]),
    ("not covered", [append(1, 5), append(6, 6), delete(4)], [0, 1, 2]),
    ("covered by a delete behind a delete", [append(1, 1), delete(1), append(2, 2), delete(2)],
     [1, 2, 3]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("actions", "kept"), [case[1:] for case in REDUCTIONS], ids=[case[0] for case in REDUCTIONS]
)
def test_a_batch_is_reduced_by_the_rules(actions: list[Action], kept: list[int]) -> None:
    """Checklist row 76."""
    assert [each.offset for each in reduced(placed(actions))] == kept


class Store:
    """Events one by one, the pointer, and which append spoke last of expiry."""

    def __init__(self, first: int = 0) -> None:
        self.events = set(range(1, first + 1))
        self.pointer: int | None = first or None
        self.metadata_of: int | None = None

    def take(self, one: Placed) -> None:
        match one.action:
            case Append(range=numbers):
                self.events |= set(range(numbers.first, numbers.last + 1))
                self.pointer, self.metadata_of = numbers.last, one.offset
            case Delete(to=to):
                self.events = {each for each in self.events if each > to}
            case Purge():
                self.events, self.pointer, self.metadata_of = set(), None, None
            case Mark():
                pass


def state(actions: list[Placed], first: int) -> tuple[set[int], int | None, int | None]:
    store = Store(first)
    for one in actions:
        store.take(one)
    return store.events, store.pointer, store.metadata_of


def life(rng: Random, first: int, count: int) -> list[Placed]:
    """What a writer and a deleter may have sent, behind a store that has `first` events."""
    made: list[Action] = []
    last = first
    for _ in range(count):
        match rng.choice("aaaddpm"):
            case "a":
                begin = last + 1
                last = begin + rng.randint(0, 2)
                made.append(append(begin, last))
            case "d":
                made.append(delete(max(1, last + rng.randint(-5, 2))))
            case "p":
                made.append(PURGE)
                last = 0
            case "m":
                made.append(MARK)
    return placed(made)


@settings(deadline=None, max_examples=500)
@given(seed=st.integers(0, 2**32), first=st.integers(0, 3), cut=st.integers(0, 10))
def test_the_store_cannot_tell_a_reduced_batch(seed: int, first: int, cut: int) -> None:
    """Checklist row 76. Nor in how many batches it came, nor whether it was reduced before."""
    actions = life(Random(seed), first, 10)

    once = reduced(actions)

    assert state(once, first) == state(actions, first)
    assert reduced(once) == once
    assert reduced([*reduced(actions[:cut]), *actions[cut:]]) == once


def test_an_append_that_expected_another_number_is_refused_by_everybody_alike() -> None:
    actions = placed(
        [
            append(4, 4, expected=3),
            append(4, 5, expected=3),  # another writer was faster
            append(5, 5, expected=4),
            append(6, 6),
            PURGE,
            append(1, 1, expected=6),
            append(1, 1, expected=0),
        ]
    )

    assert [each.offset for each in accepted(actions, Last(seq_nr=SeqNr(3), offset=-1))] == [
        0,
        2,
        3,
        4,
        6,
    ]
    assert [each.offset for each in accepted(actions, None)] == [3, 4, 6]


@settings(deadline=None, max_examples=200)
@given(seed=st.integers(0, 2**32), cut=st.integers(0, 10))
def test_what_is_accepted_does_not_depend_on_the_batches(seed: int, cut: int) -> None:
    rng = Random(seed)
    actions = [
        Placed(offset=each.offset, action=_expecting(each.action, rng)) for each in life(rng, 0, 10)
    ]
    whole = accepted(actions, None)
    begin = accepted(actions[:cut], None)

    last = None
    for each in begin:
        last = behind(each, last)

    assert begin + accepted(actions[cut:], last) == whole


def _expecting(action: Action, rng: Random) -> Action:
    if not isinstance(action, Append) or rng.random() < 0.3:
        return action
    wrong = 0 if rng.random() < 0.6 else 1
    return append(action.range.first, action.range.last, action.range.first - 1 + wrong)
