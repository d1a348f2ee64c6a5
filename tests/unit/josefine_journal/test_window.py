"""A window of a journal's actions against a journal that is kept event by event."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.records.builder import Record
from josefine_journal.actions import Action, Append, Delete, Mark, Purge
from josefine_journal.errors import JournalError
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.records import (
    ActionRecord,
    EventRecord,
    RecordMetadata,
    action_record,
    encode_append,
    headers_of,
)
from josefine_journal.reduction import Last
from josefine_journal.window import ACTION_BYTES, Reading, Window
from tests.support.journal import Model


def events(first: int, last: int, said: object) -> tuple[Event, ...]:
    return tuple(Event(seq_nr=SeqNr(n), payload=Json([n, said])) for n in range(first, last + 1))


def appended(offset: int, given: tuple[Event, ...], expected: int | None = None) -> ActionRecord:
    action, value = encode_append(
        given, RecordMetadata(), origin=None, version=None, expected_seq_nr=expected
    )
    return placed(offset, action, value)


def placed(offset: int, action: Action, value: bytes | None = None) -> ActionRecord:
    record = Record(b"id", value, headers_of(action, ()), 7, offset)
    found = action_record("t", 0, record)
    assert found is not None
    return found


def life(rng: Random, model: Model, count: int) -> list[ActionRecord]:
    """Writers that know the pointer, that are late, and that sent their last record twice."""
    log: list[ActionRecord] = []
    for offset in range(count):
        pointer = model.pointer or 0
        match rng.choice("aaaaeedprm"):
            case "a" | "e" as kind:
                first = pointer + rng.randint(1, 3)
                given = events(first, first + rng.randint(0, 3), offset)
                expected = None if kind == "a" else max(0, pointer - rng.randint(0, 1))
                log.append(appended(offset, given, expected))
                model.append(given, expected)
            case "d":
                to = SeqNr(max(1, pointer + rng.randint(-4, 3)))
                log.append(placed(offset, Delete(to=to)))
                model.delete(to)
            case "p":
                log.append(placed(offset, Purge()))
                model.purge()
            case "r" if log and isinstance(log[-1].action, Append):
                before = log[-1]
                if before.action.expected_seq_nr is None:  # type: ignore[union-attr]
                    log.append(placed(offset, before.action, before.value))
            case _:
                log.append(placed(offset, Mark(id="m")))
    return log


def read(log: list[ActionRecord], kept_bytes_max: int, begin: int) -> list[EventRecord]:
    """As a journal reads: what was kept, then the rest once more."""
    window = window_of(log, kept_bytes_max)
    reading = Reading(max(begin, window.deleted_to + 1))
    found = [each for record in window.kept for each in reading.events(record)]
    if window.resume is not None:
        again = Window(window.resume.last, kept_bytes_max=0)
        rest = [each for each in log if each.offset >= window.resume.offset]
        for record in rest:
            if again.take(record) and record.value is not None:
                found += reading.events(record)
    return found


def window_of(log: list[ActionRecord], kept_bytes_max: int) -> Window:
    window = Window(None, kept_bytes_max=kept_bytes_max)
    for record in log:
        window.take(record)
    return window


@settings(deadline=None, max_examples=300)
@given(seed=st.integers(0, 2**32), kept=st.sampled_from([0, 500, 1_000, 10**6]))
def test_a_window_gives_what_the_journal_has_however_little_is_kept(seed: int, kept: int) -> None:
    """Checklist rows 61, 62, 64 and 65."""
    rng, model = Random(seed), Model()
    log = life(rng, model, 14)
    begin = rng.randint(1, 6)

    found = read(log, kept, begin)

    assert [each.event for each in found] == model.read(begin)
    assert window_of(log, kept).pointer == model.pointer


def test_what_is_kept_is_bounded_and_a_purge_begins_anew() -> None:
    """Checklist row 67."""
    one = appended(0, events(1, 1, "a"))
    room = 3 * (one.value_bytes + ACTION_BYTES)
    log = [appended(n, events(n + 1, n + 1, "a")) for n in range(9)]

    window = window_of(log, room)
    purged = window_of([*log, placed(9, Purge()), appended(10, events(1, 1, "b"))], room)

    assert [each.offset for each in window.kept] == [0, 1, 2]
    assert window.resume is not None
    assert (window.resume.offset, window.resume.last) == (3, Last(seq_nr=SeqNr(3), offset=2))
    assert [each.offset for each in purged.kept] == [10]
    assert purged.resume is None


def test_values_of_which_nothing_is_given_are_not_decoded() -> None:
    broken = placed(0, appended(0, events(1, 2, "a")).action, b"broken")
    log = [broken, placed(1, Delete(to=SeqNr(2))), appended(2, events(3, 3, "b"))]

    assert [each.event.seq_nr for each in read(log, 10**6, 1)] == [3]
    with pytest.raises(JournalError, match="t-0 offset 0: payload is not valid JSON"):
        read(log[:1], 10**6, 1)


NOT_OURS = [
    ("no header of ours", Record(b"id", b"value", (("other", b"{}"),))),
    ("a kind that is not known", Record(b"id", b"v", (("journal.action", b'{"merge":{}}'),))),
    (
        "an append without a value",
        Record(b"id", None, headers_of(appended(0, events(1, 1, 1)).action, ())),
    ),
]


@pytest.mark.parametrize("record", [case[1] for case in NOT_OURS], ids=[c[0] for c in NOT_OURS])
def test_what_is_no_action_is_passed_over(record: Record) -> None:
    assert action_record("t", 0, record) is None


def test_a_damaged_header_is_told_with_its_place() -> None:
    with pytest.raises(JournalError, match=r"^t-3 offset 8: journal\.action is not valid JSON"):
        action_record("t", 3, Record(b"id", None, (("journal.action", b"{"),), offset=8))


def test_a_user_cannot_take_the_name_of_our_header() -> None:
    with pytest.raises(JournalError, match=r"cannot be named journal\.action"):
        headers_of(Purge(), (("journal.action", b"mine"),))
