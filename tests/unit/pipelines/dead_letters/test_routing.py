"""Who has left a dead letter out is told by the judgement of the commits that read its offset."""

from __future__ import annotations

import pytest

from josefine_broker.base.ids import TopicPartition
from pipelines.config.validate import read_pipeline
from pipelines.dead_letters.left_out import FailedRecord, LeftOut
from pipelines.dead_letters.routing import (
    Due,
    Letter,
    Read,
    Way,
    checks_in,
    due,
    due_of_sink,
    reads_of,
    way,
)
from pipelines.exactly_once.decode_fingerprint import judgement
from pipelines.model.plan import compile_plan
from pipelines.sinks.delta_log import LogEntry

P0 = TopicPartition("t", 0)
OLD, FIXED = "old", "fixed"


def entry(start: int, end: int, judged_by: str | None, batch: int = 0) -> LogEntry:
    said = {"start": {"t": {"0": start}}, "end": {"t": {"0": end}}, "batch": batch}
    if judged_by is not None:
        said["judged_by"] = judged_by
    return LogEntry(version=0, operation="", txn_version=1, txns={}, metadata=said, metrics={})


def reads(*oldest_first: LogEntry):
    return reads_of(reversed(oldest_first), moved=-1)


WROTE = reads(entry(0, 10, OLD), entry(10, 20, FIXED))


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ([entry(0, 10, OLD)], Due.DUE),
        ([entry(0, 4, OLD), entry(4, 10, OLD)], Due.DUE),
        ([entry(0, 10, FIXED)], Due.THERE),
        ([entry(0, 10, OLD), entry(3, 10, FIXED)], Due.THERE),
        ([entry(0, 10, OLD), entry(3, 10, OLD)], Due.DUE),
        ([entry(0, 10, "another")], Due.UNSURE),
        ([entry(0, 10, "another"), entry(0, 10, OLD)], Due.UNSURE),
        ([entry(0, 10, None)], Due.UNSURE),
        ([entry(0, 3, OLD)], Due.NOT_READ),
        ([], Due.NOT_READ),
        ([entry(7, 10, OLD)], Due.UNSURE),
        ([entry(0, 3, OLD), entry(3, 10, OLD, batch=-1)], Due.UNSURE),
    ],
)
def test_a_sink_that_read_a_letter_with_its_own_judgement_left_it_out(read, expected):
    assert due(Letter(partition=P0, offset=5), WROTE, reads(*read), FIXED) is expected


def test_without_the_judgement_of_the_letter_nobody_knows():
    unknown = reads(entry(0, 10, None))

    assert due(Letter(partition=P0, offset=5), unknown, unknown, FIXED) is Due.UNSURE
    assert due(Letter(partition=P0, offset=5), {}, reads(entry(0, 9, OLD)), FIXED) is Due.UNSURE


def left_out(start: int, end: int, *offsets: int, batch: int = 0) -> LogEntry:
    found = entry(start, end, OLD, batch)
    records = tuple(
        FailedRecord(topic="t", partition=0, offset=o, stage="", reason="") for o in offsets
    )
    assert found.metadata is not None
    found.metadata["left_out"] = LeftOut(records=records).to_json()
    return found


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ([left_out(0, 10, 3, 5)], Due.DUE),
        ([left_out(0, 10, 4)], Due.THERE),
        ([entry(0, 10, OLD)], Due.THERE),
        ([left_out(0, 10, 5), left_out(3, 10)], Due.THERE),
        ([left_out(0, 10), left_out(3, 10, 5)], Due.DUE),
        ([left_out(0, 10, 5, batch=-1)], Due.UNSURE),
        ([left_out(0, 5)], Due.NOT_READ),
        ([], Due.NOT_READ),
        ([left_out(7, 10)], Due.UNSURE),
    ],
)
def test_a_sink_lacks_what_its_newest_commit_of_that_offset_lists(commits, expected):
    letter = Letter(partition=P0, offset=5, sink="lake")

    assert due_of_sink(letter, commits[::-1], moved=-1) is expected


def test_commits_that_follow_each_other_are_one_read():
    assert reads(entry(0, 4, OLD), entry(4, 9, OLD), entry(9, 9, OLD), entry(9, 11, FIXED)) == {
        P0: [Read(0, 9, OLD), Read(9, 11, FIXED)]
    }


@pytest.mark.parametrize(
    ("reason", "names"),
    [
        ("not JSON", ()),
        ("check positive: v > 0", ("positive",)),
        ("check a: x; check b_2: y = 'z'", ("a", "b_2")),
        ("does not fit the schema: check a: INT", ()),
    ],
)
def test_a_reason_names_its_checks(reason, names):
    assert checks_in(reason) == names


FILE = """\
version: 1
name: p
spark: { checkpoint: /ck }
sources:
  s: { type: memory, records: [ { value: x } ],
       decode: { value: { format: json, schema: "id INT", on_error: dead_letter } } }
transforms:
  clean: { inputs: [s], sql: "select value.id, topic, partition, offset from s" }
  big: { inputs: [clean], sql: "select * from clean" }
  both: { inputs: [big, s], sql: "select id from big union all select value.id from s" }
checks:
  good: { on: clean, expr: "%s", action: dead_letter }
sinks:
  one: { type: delta, inputs: [big], path: /t/one, mode: append }
  two: { type: delta, inputs: [both], path: /t/two, mode: append }
dead_letter: { type: delta, path: /t/dead }
trigger: { available_now: true }
"""


def pipeline(tmp_path, text: str):
    file = tmp_path / "p.yaml"
    file.write_text(text)
    return read_pipeline(file, {})


def test_rows_that_came_around_the_check_are_there_already(tmp_path):
    file = pipeline(tmp_path, FILE % "id > 0")

    assert way(file, "big", {"clean"}) is Way.ALL
    assert way(file, "both", {"clean"}) is Way.SOME
    assert way(file, "both", {"clean", "s"}) is Way.ALL
    assert way(file, "clean", {"big"}) is Way.NONE


def test_another_check_schema_or_sql_below_a_check_is_another_judgement(tmp_path):
    def of(text: str) -> str:
        file = pipeline(tmp_path, text)
        return judgement(compile_plan(file).sources["s"])

    same = FILE % "id > 0"
    others = [
        FILE % "id > 1",
        same.replace("id INT", "id BIGINT"),
        same.replace("select value.id, topic", "select value.id + 1 as id, topic"),
        same.replace("on_error: dead_letter", "on_error: dead_letter, strict: true"),
        same.replace("on_error: dead_letter", "on_error: dead_letter, tombstones: true"),
    ]
    assert of(same) == of(same.replace("select * from clean", "select id from clean"))
    assert len({of(each) for each in [same, *others]}) == len(others) + 1
