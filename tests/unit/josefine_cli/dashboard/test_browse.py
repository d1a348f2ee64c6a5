"""The message browser's pages of records: which are chosen, and from where they continue."""

from __future__ import annotations

import pytest

from josefine_broker.records.builder import Record
from josefine_cli.dashboard.browse import Found, asked, continued, merged, shown


def rows(partition: int, *times_ms: int, first: int = 0) -> list[Found]:
    """Records of these times, with offsets from `first` on."""
    return [
        Found(time_ms, partition, first + number, {}) for number, time_ms in enumerate(times_ms)
    ]


def places(found: list[Found]) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in found]


def test_records_of_all_partitions_come_in_the_order_of_time() -> None:
    found = [rows(0, 10, 30), rows(1, 20, 40)]

    assert places(merged(found, 3, newest=False)) == [(0, 0), (1, 0), (0, 1)]
    assert places(merged(found, 3, newest=True)) == [(1, 0), (0, 1), (1, 1)]


def test_a_partition_keeps_its_order_whatever_its_timestamps() -> None:
    assert places(merged([rows(0, 30, 10, 20)], 2, newest=False)) == [(0, 0), (0, 1)]


def test_nothing_is_left_out_between_two_pages() -> None:
    found = {0: rows(0, 10, 50, 60), 1: rows(1, 20, 30)}
    chosen = merged(found.values(), 3, newest=False)

    after, before = continued(found, chosen, {0: 0, 1: 0}, {0: 3, 1: 2}, newest=False)

    assert places(chosen) == [(0, 0), (1, 0), (1, 1)]
    assert after == {0: 1, 1: 2}
    assert before == {0: 0, 1: 0}


def test_a_partition_without_a_chosen_record_is_read_again() -> None:
    found = {0: rows(0, 90, first=5), 1: rows(1, 10)}
    chosen = merged(found.values(), 1, newest=False)

    after, before = continued(found, chosen, {0: 4, 1: 0}, {0: 6, 1: 1}, newest=False)

    assert (after, before) == ({0: 4, 1: 1}, {0: 4, 1: 0})


def test_older_pages_end_where_the_newest_start_and_the_tail_continues_at_the_end() -> None:
    found = {0: rows(0, 10, 80, first=7), 1: rows(1, 20, 30)}
    chosen = merged(found.values(), 1, newest=True)

    after, before = continued(found, chosen, {0: 7, 1: 0}, {0: 9, 1: 2}, newest=True)

    assert after == {0: 9, 1: 2}
    assert before == {0: 8, 1: 2}


def test_positions_are_part_of_the_address() -> None:
    assert asked({"topic": "t", "at": "0:5,12:7"}).at == {0: 5, 12: 7}
    assert asked({"topic": "t"}).is_newest
    assert asked({"topic": "t", "until": "0:5"}).is_newest
    assert not asked({"topic": "t", "search": "x"}).is_newest
    for text in ("0", "x:1", "0:-1", "0:٣"):
        with pytest.raises(ValueError, match="expected a number"):
            asked({"topic": "t", "at": text})


def test_a_decoded_value_comes_with_its_bytes_and_a_bad_one_with_the_reason() -> None:
    good = shown(Record(None, b"\0abc", (), 0, 5), 3, lambda data: ('{"a": 1}', None))
    bad = shown(Record(None, b"\0abc", (), 0, 5), 3, lambda data: (None, "schema 7 is unknown"))

    assert (good["partition"], good["decoded"], good["value"]) == (3, '{"a": 1}', "\0abc")
    assert "decoded" not in bad
    assert bad["undecoded"] == "schema 7 is unknown"
