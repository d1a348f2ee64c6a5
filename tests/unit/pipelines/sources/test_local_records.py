"""Records without a broker: what lies between two offsets, and where batches end."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.sources.local_records import RATE_BEGAN_MS, Lines, Memory, Rate, next_end, start_of

NOW_MS = RATE_BEGAN_MS + 10_000
RATE = TopicPartition("rate", 0)


def lines_in(folder, **files: bytes) -> Lines:
    for name, text in files.items():
        (folder / name).write_bytes(text)
    return Lines(path=str(folder))


def read(records, name: str, start: int, end: int) -> list[tuple[int, bytes]]:
    rows = records.read(TopicPartition(name, 0), start, end)
    return [(row[4], row[1]) for row in rows]


def test_a_rate_has_so_many_rows_a_second_each_made_of_its_number():
    rate = Rate(rows_per_second=3)

    assert rate.look(NOW_MS).ends == {RATE: 30}
    assert rate.look(NOW_MS + 333).ends == {RATE: 30}
    assert rate.look(NOW_MS + 334).ends == {RATE: 31}
    (row,) = rate.read(RATE, 31, 32)
    at = datetime(2026, 1, 1, 0, 0, 10, 333_333, UTC)
    assert row[2:7] == ("rate", 0, 31, at, 0)
    assert json.loads(row[1]) == {"n": 31, "at": at.isoformat()}
    assert rate.look(0).ends == {RATE: 0}


def test_another_rate_is_another_topic():
    before, after = (Rate(rows_per_second=n).look(NOW_MS) for n in (3, 4))

    assert before.recreated(after.topic_ids) == {"rate"}


def test_only_whole_lines_of_files_that_are_not_hidden_count(tmp_path):
    (tmp_path / "deep").mkdir()
    records = lines_in(
        tmp_path, a=b'{"x": 1}\r\n\nlast', b=b"none", _c=b"hidden\n", **{"deep/d": b"1\n2\n"}
    )

    assert records.look(0).ends == {("a", 0): 11, ("deep/d", 0): 4}
    assert read(records, "a", 0, 11) == [(0, b'{"x": 1}'), (10, b"")]
    assert read(records, "deep/d", 2, 4) == [(2, b"2")]
    assert Lines(path=str(tmp_path / "**" / "d")).look(0).ends == {("deep/d", 0): 4}


def test_a_file_that_grows_is_the_same_one_and_one_that_begins_otherwise_another(tmp_path):
    records = lines_in(tmp_path, a=b"one\ntw")
    before = records.look(0)

    lines_in(tmp_path, a=b"one\ntwo\n")
    grown = records.look(0)
    lines_in(tmp_path, a=b"ones\ntwo\n")
    other = records.look(0)

    assert (before.recreated(grown.topic_ids), grown.ends) == (set(), {("a", 0): 8})
    assert grown.recreated(other.topic_ids) == {"a"}


def test_the_end_of_the_last_whole_line_is_found_however_long_the_rest_is(tmp_path):
    many = b"x" * 200_000
    records = lines_in(tmp_path, a=b"one\n" + many, b=many + b"\n", c=b"\n" + many)

    assert records.look(0).ends == {("a", 0): 4, ("b", 0): 200_001, ("c", 0): 1}


@pytest.mark.parametrize(
    ("begin", "most", "end"),
    [
        ({}, None, {"a": 9, "b": 8}),
        ({}, 1, {"a": 3, "b": 0}),
        ({}, 5, {"a": 3, "b": 4}),
        ({}, 6, {"a": 6, "b": 0}),
        ({"a": 6}, 3, {"a": 9, "b": 0}),
        ({"a": 6}, 4, {"a": 9, "b": 4}),
        ({"a": 9, "b": 4}, 1, {"a": 9, "b": 8}),
        ({"a": 9, "b": 8}, 1, {"a": 9, "b": 8}),
    ],
)
def test_a_batch_of_lines_ends_behind_a_line_and_has_one_at_least(tmp_path, begin, most, end):
    records = lines_in(tmp_path, a=b"12\n45\n78\n", b=b"123\n567\n")
    at = {TopicPartition(name, 0): offset for name, offset in begin.items()}

    found = records.cut(at, records.look(0).ends, most)

    assert found == {(name, 0): offset for name, offset in end.items()}


def test_batches_of_lines_read_each_line_once(tmp_path):
    records = lines_in(
        tmp_path, a=b"".join(b"x" * (n % 7) + b"\n" for n in range(50)), b=b"z\n" * 9
    )
    now, begin, found = records.look(0), TopicOffsets(), []
    while (end := next_end(records, begin, now, 11)).ends != begin.ends:
        for tp, offset in end.ends.items():
            found += [
                (tp, *each) for each in read(records, tp.topic, begin.start_of(tp, end), offset)
            ]
        begin = end

    assert sorted(found) == sorted(
        (tp, *each) for tp, last in now.ends.items() for each in read(records, tp.topic, 0, last)
    )


def test_a_batch_of_rows_is_as_large_as_it_may_be():
    records, now = Rate(rows_per_second=1), Rate(rows_per_second=1).look(NOW_MS)
    begin = TopicOffsets(ends={RATE: 4}, first={RATE: 4}, topic_ids=now.topic_ids)

    assert next_end(records, begin, now, 5).ends == {RATE: 9}
    assert next_end(records, begin, now, None).ends == {RATE: 10}
    assert next_end(records, begin, now, 5).first == {RATE: 4}


def test_a_source_begins_where_it_says():
    rate = Rate(rows_per_second=2)
    now = rate.look(NOW_MS)
    memory = Memory(records={TopicPartition("m", 0): [("row",), ("row",)]})

    assert start_of(rate, "latest", now) == {RATE: 20}
    assert start_of(rate, "last 5", now) == {RATE: 15}
    assert start_of(rate, f"{NOW_MS - 3_000}ms", now) == {RATE: 14}
    assert start_of(rate, f"{NOW_MS + 3_000}ms", now) == {RATE: 20}
    assert start_of(memory, "earliest", memory.look(0)) == {("m", 0): 0}
