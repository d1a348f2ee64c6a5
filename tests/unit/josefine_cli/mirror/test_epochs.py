"""What the source's leader epochs show of a mirror's batches."""

import pytest

from josefine_cli.mirror.epochs import Answers, check, is_of, noted, parse, render, to_ask
from josefine_cli.mirror.plan import Note, Tail, Why, tail_of
from tests.unit.josefine_cli.mirror.test_plan import at

ONE, TWO, THREE = Note(0, 1, 11), Note(5, 2, 22), Note(9, 4, 44)


def verdict(
    notes: tuple[Note, ...], end: int, *ends: tuple[int, int], start: int = 0, first: int = 1
) -> Why | None:
    """By the source's answers, in the order of the epochs that are asked for."""
    asked = to_ask(notes, end)
    found = check(notes, end, Answers(start, first, dict(zip(asked, ends, strict=True))))
    return None if found is None else found.why


def test_notes_are_read_as_they_were_written() -> None:
    notes = {0: (ONE, TWO), 3: (Note(7, 9),)}
    assert parse(render(notes)) == notes
    assert parse("") == {}
    assert parse("nonsense,1:2,0:0:1:11") == {0: (ONE,)}


@pytest.mark.parametrize(
    ("known", "found", "after"),
    [
        ((), [ONE], (ONE,)),
        ((ONE,), [Note(3, 1, 33)], (ONE,)),
        ((ONE,), [TWO, THREE], (ONE, TWO, THREE)),
        ((ONE, TWO, THREE), [Note(12, 5, 55)], (THREE, Note(12, 5, 55))),
        # Another batch than the noted one has its place, if that was not appended.
        ((ONE, TWO), [Note(5, 3, 33)], (ONE, TWO, Note(5, 3, 33))),
        ((ONE, THREE), [TWO], (ONE, TWO)),
        ((ONE, TWO), [Note(5, 1, 33)], (ONE,)),
        # Its first batch replaces an epoch in which nothing was written.
        ((ONE, Note(5, 2)), [TWO], (ONE, TWO)),
        ((ONE, Note(5, 2)), [Note(7, 2, 22)], (ONE, Note(7, 2, 22))),
        ((ONE,), [Note(0, -1, 11)], (ONE,)),
    ],
)
def test_new_epochs_are_noted(
    known: tuple[Note, ...], found: list[Note], after: tuple[Note, ...]
) -> None:
    assert noted(known, found) == after


def test_source_with_the_same_epochs_has_the_same_records() -> None:
    assert verdict((ONE, TWO), 9, (1, 5), (2, 9)) is None
    assert verdict((ONE, TWO), 9, (1, 5), (2, 12)) is None
    # Nothing that is here is of a noted epoch.
    assert not to_ask((TWO,), 5)


def test_epoch_that_ended_earlier_or_that_the_source_never_had_is_another_history() -> None:
    assert verdict((ONE, TWO), 9, (1, 5), (2, 8)) is Why.DIFFERENT
    assert verdict((ONE, TWO), 9, (1, 12), (1, 12)) is Why.DIFFERENT
    assert verdict((ONE,), 9, (-1, -1)) is Why.DIFFERENT


def test_epoch_without_records_leaves_it_to_the_one_before() -> None:
    empty = Note(9, 3)
    assert verdict((ONE, empty), 9, (1, 9), (1, 9)) is None
    assert verdict((ONE, empty), 9, (1, 8), (1, 8)) is Why.DIFFERENT


def test_source_without_the_epoch_answers_with_its_start() -> None:
    assert verdict((ONE,), 9, (1, 9), start=9, first=2) is Why.UNKNOWN
    assert verdict((ONE,), 9, (1, 9), start=9, first=-1) is Why.UNKNOWN
    assert verdict((ONE,), 9, (1, 8), start=8, first=2) is Why.DIFFERENT
    # It has the epoch: nothing else was written before 9.
    assert verdict((ONE,), 9, (1, 9), start=9, first=1) is None
    assert verdict((ONE, Note(9, 2)), 9, (1, 9), (2, 11), start=9, first=2) is None


def test_note_is_of_the_batch_with_its_checksum() -> None:
    batch = memoryview(at(5, b"a"))
    tail = tail_of(batch, 6)
    assert isinstance(tail, Tail)
    assert is_of(Note(5, 1, tail.crc), batch)
    assert not is_of(Note(5, 1, tail.crc), memoryview(at(5, b"b")))
    assert not is_of(Note(5, 1), batch)
    assert not is_of(Note(5, 1), memoryview(b""))
