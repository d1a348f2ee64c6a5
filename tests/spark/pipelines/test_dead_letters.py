"""Records that are no events: in the dead letters with place and reason, or a clear stop."""

from __future__ import annotations

import shutil

import pytest

from pipelines.base.errors import ChainError, RunError
from pipelines.exactly_once.checkpoint_start import Trust

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

BAD: list[tuple[bytes | None, str]] = [
    (b"not json", "not JSON"),
    (None, "the value is null"),
    (b"", "not JSON"),
    (b"   ", "not JSON"),
    (b"null", "JSON, but not an object"),
    (b"5", "JSON, but not an object"),
    (b'[{"id": 1}, {"id": 2}]', "JSON, but not an object"),
    (b'{"id": 1} rubbish', "not JSON"),
    (b'{"id": 1}{"id": 2}', "not JSON"),
    (b"{'id': 1}", "not JSON"),
    (b'{"id": "one"}', "does not fit the schema: id INT"),
    (b'{"id": 3000000000}', "does not fit the schema: id INT"),
    (b'{"id": 1.5, "v": true}', "does not fit the schema: id INT, v INT"),
    (b'{"id": 1, "k": "\xff"}', "not UTF-8 text"),
]

GOOD: list[tuple[bytes, dict]] = [
    (b'{"id": 900, "k": "}", "v": 1}', {"id": 900, "k": "}", "v": 1}),
    (b'{"id": 901, "more": {"a": [1, {"b": 2}]}}\n', {"id": 901, "k": None, "v": None}),
    (b' {"v": null, "id": 902, "k": 7} ', {"id": 902, "k": "7", "v": None}),
    ('{"id": 903, "k": "ü€"}'.encode(), {"id": 903, "k": "ü€", "v": None}),
]


def test_bad_records_go_to_the_dead_letters_with_place_reason_and_bytes(lab):
    lab.write_file(**{"trigger:": 'metrics: { table: "${LAB}/tables/metrics" }\ntrigger:'})
    lab.produce(10)
    base = lab.topic_ends()[lab.topic, 1]
    lab.produce_raw(1, *(value for value, _ in BAD), *(value for value, _ in GOOD))

    lab.run(rows=15)

    dead = sorted(lab.arrow("dead").to_pylist(), key=lambda row: row["offset"])
    assert [(row["value"], row["reason"]) for row in dead] == BAD
    assert [row["offset"] for row in dead] == [base + n for n in range(len(BAD))]
    assert {(row["source"], row["topic"], row["partition"], row["key"]) for row in dead} == {
        ("events", lab.topic, 1, b"key")
    }
    rows = [row for row in lab.arrow("rows").to_pylist() if row["id"] >= 900]
    found = [{name: row[name] for name in ("id", "k", "v")} for row in rows]
    assert sorted(found, key=lambda row: row["id"]) == [event for _, event in GOOD]
    _check_metrics(lab, ("rows", "sums"))


def _check_metrics(lab, sinks):
    """A row for each commit of each sink: together they have passed all of the topic."""
    batches = [done for done in lab.reporter.batches if not done.already_there]
    told = lab.arrow("metrics").to_pylist()
    assert {(row["sink"], row["batch"], row["version"]) for row in told} == {
        (done.sink, done.batch, done.version) for done in batches
    }
    assert len(told) == len(batches) > 2
    assert sum(row["dead_letters"] for row in told) == len(BAD)
    for sink in sinks:
        own = [row for row in told if row["sink"] == sink]
        passed = sorted(
            (each["partition"], n)
            for row in own
            for each in row["offsets"]
            for n in range(each["start"], each["end"])
        )
        ends = sorted((p, n) for (_, p), end in lab.topic_ends().items() for n in range(end))
        assert passed == ends
        assert sum(row["records"] for row in own) == len(ends)
        assert min(row["lag"] for row in own) == 0
        for row in own:
            parts = dict(row["seconds_of"])
            assert {"rows"} <= parts.keys() <= {"letters", "rows"}
            assert 0 < sum(parts.values()) <= row["seconds"]
    assert lab.reporter.lines == []


def test_with_on_error_fail_the_first_bad_record_stops_the_run_before_anything_is_written(lab):
    lab.write_file(on_error="fail")
    lab.produce(4)
    lab.produce_raw(1, b"not json")

    with pytest.raises(RunError) as stopped:
        lab.run()

    assert str(stopped.value) == (
        f"source `events`: {lab.topic}-1 offset 2: not JSON; nothing of this batch was written "
        "(on_error: fail)"
    )
    assert lab.arrow("rows").num_rows == 0


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_deleted_table_of_dead_letters_stops_and_the_user_says_to_go_on_without_them(lab):
    lab.produce(4)
    lab.produce_raw(1, b"not json")
    lab.run()
    shutil.rmtree(lab.table("dead"))
    lab.produce_raw(0, b"not json either")

    with pytest.raises(ChainError, match="it was deleted or restored") as stopped:
        lab.run()
    assert f"josefine pipeline run {lab.file} --trust table" in str(stopped.value)
    assert lab.reporter.lines == []
    lab.run(trust=Trust.TABLE)

    assert lab.arrow("dead")["value"].to_pylist() == [b"not json either"]
    told = f"the dead letters' table {lab.table('dead')} lacks dead letters that it had"
    assert [(sink, line[: len(told)]) for sink, line in lab.reporter.lines] == [("rows", told)]
    assert lab.chain_ends("dead", "dead_letter.events") == lab.topic_ends()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_the_letters_table_has_a_commit_for_batches_with_letters_and_one_that_goes_back_stops(lab):
    """The sinks' commits say the rest: up to where letters were seen to, and what there was."""
    lab.produce(8)
    lab.run(rows=2)
    first = len(lab.history("dead"))
    lab.produce_raw(0, b"not json")
    lab.bad = [(0, 4)]
    lab.run()
    lab.produce_raw(0, b"nor this")
    lab.produce_raw(1, b"and this")
    lab.bad += [(0, 5), (1, 4)]
    lab.run()
    assert lab.history("dead")[0].metrics["numFiles"] == 1, "a file for each partition"
    lab.produce(12)
    lab.lose_checkpoint()
    lab.run(rows=3)

    lab.check()
    assert (first, len(lab.history("dead"))) == (0, 2)
    letters = lab.arrow("dead")["value"].to_pylist()
    assert sorted(letters) == [b"and this", b"nor this", b"not json"]
    lab.spark.sql(f"RESTORE TABLE delta.`{lab.table('dead')}` TO VERSION AS OF 1")
    with pytest.raises(ChainError, match="it was deleted or restored"):
        lab.run()
