"""The history of a journal that moves: its valid actions, as a copy would be valid too."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.client.partitioner import partition_for_key
from josefine_broker.records.builder import Record
from josefine_journal.actions import Append, Purge, decode_action
from josefine_journal.events import SeqNr
from josefine_journal.history import Partition, items_of_rows
from josefine_journal.moved import MOVED_HEADER, Copied, Left, Move, encode_moved, moved_of
from josefine_journal.records import headers_of
from josefine_journal.reduction import Last
from tests.unit.josefine_journal.test_expiring import DAY, append

MOVE = Move(count_before=2, count=5)


def part(number: int = 0, **lasts: Last) -> Partition:
    return Partition(
        number=number, move=MOVE, lasts={key: (last, 0) for key, last in lasts.items()}
    )


def appended(number: int, offset: int, expected: int | None = None, key: bytes = b"id") -> Record:
    found = append(number, DAY)
    action = found.action
    assert isinstance(action, Append)
    expects = None if expected is None else SeqNr(expected)
    action = replace(action, expected_seq_nr=expects)
    return Record(key, found.value, headers_of(action, ()), 7, offset)


def purged(offset: int, expected: int | None = None, *headers: tuple[str, bytes]) -> Record:
    action = Purge(origin=None, expected_offset=expected)
    return Record(b"id", None, (*headers_of(action, ()), *headers), 7, offset)


def action_of(record: Record):
    (value,) = (value for name, value in record.headers if name != MOVED_HEADER)
    assert value is not None
    return decode_action(value)


@given(st.text(min_size=1))
def test_a_journal_moves_from_one_partition_to_another_or_stays(key: str) -> None:
    before = partition_for_key(key.encode(), 2)
    after = partition_for_key(key.encode(), 5)

    moving = [n for n in range(5) if part(n).is_moving(key)]
    strange = [n for n in range(5) if part(n).is_strange(key)]

    assert moving == ([before] if before != after else [])
    assert strange == ([after] if before != after else [])


def test_refused_appends_are_left_out_and_a_met_expectation_is_kept() -> None:
    records = [appended(1, 0, expected=0), appended(2, 1, expected=5), appended(2, 2, expected=1)]

    items = part().items("t", records)

    assert [item.offset for item in items] == [0, 2]
    assert [action_of(item.record).expected_seq_nr for item in items] == [0, 1]
    assert all(item.is_alive for item in items)


def test_an_expectation_that_was_met_only_because_records_were_lost_is_dropped() -> None:
    one = Partition(number=0, move=MOVE, lasts={"id": (None, 9)})

    (item,) = one.items("t", [appended(4, 9, expected=3)])

    assert action_of(item.record).expected_seq_nr is None


def test_a_valid_conditional_purge_loses_its_condition_and_ends_the_journal() -> None:
    items = part().items("t", [appended(1, 0), purged(1, expected=7), purged(2, expected=0)])

    assert [(item.offset, item.is_alive) for item in items] == [(0, True), (2, False)]
    assert action_of(items[1].record).expected_offset is None


def test_a_record_that_nobody_can_read_is_copied_as_it_is() -> None:
    strange = Record(b"id", b"x", (("josefine-action", b"not JSON"),), 7, 3)

    items = part().items(
        "t", [strange, Record(None, b"x", (), 7, 4), Record(b"\xff", b"", (), 7, 5)]
    )

    kept = [item for item in items if item.offset == 3]
    assert all(item.record == strange and item.is_alive for item in kept)
    assert not [item for item in items if item.offset in (4, 5)]


def test_the_purge_of_the_move_itself_is_no_part_of_the_history() -> None:
    left = (MOVED_HEADER, encode_moved(Left(move=MOVE, partition=3)))
    other = (MOVED_HEADER, encode_moved(Left(move=Move(count_before=1, count=2), partition=1)))

    mine, others = part().items("t", [purged(0, None, left), purged(1, None, other)])

    assert (mine.is_left, others.is_left) == (True, False)
    assert all(name != MOVED_HEADER for name, _ in mine.record.headers)


def test_a_copy_names_the_place_of_its_original() -> None:
    (item,) = part().items("t", [appended(1, 4)])
    place = Copied(move=MOVE, partition=0, offset=4)

    copy = item.copy(place)

    assert copy.value == item.record.value
    ((_, value),) = (each for each in copy.headers if each[0] == MOVED_HEADER)
    assert value == encode_moved(place)
    assert moved_of(((MOVED_HEADER, value),)) == place


def test_rows_of_the_store_are_records_again() -> None:
    row = replace(append(3, DAY), offset=8)

    (item,) = items_of_rows([("id", row)], part())

    assert (item.key, item.offset, item.is_alive) == ("id", 8, True)
    assert item.record.value == row.value
