"""`watermark` in a file, and the chain that a state follows: by values, without Spark."""

from __future__ import annotations

import pytest

from josefine_spark.topic_offsets import TopicOffsets
from pipelines.chain import Batch, Commit, Skip, Stop, Tip, Verdict
from pipelines.reconcile import Checkpoint, Recorded, Unreadable
from pipelines.sdp import export
from pipelines.state_chain import decide_in_turn, made_by, other_state, state_stop
from tests.unit.pipelines.test_json_schema import complaints
from tests.unit.pipelines.test_lookups import linted, pipeline_of
from tests.unit.pipelines.test_validate import GOOD

A = ("t", 0)
CLEAN = "{ inputs: [raw], sql: select value.* from raw }"
WINDOWS = GOOD.replace(CLEAN, "{ inputs: [raw], sql: 'select value.*, timestamp as at from raw' }")
WINDOWS = WINDOWS.replace(
    "sinks:",
    """  per_minute:
    inputs: [clean]
    watermark: { clean: { column: at, delay: 10m } }
    sql: "select window.start as at, id, count(*) as n from clean group by window(at, '1m'), id"
sinks:""",
).replace("type: delta, inputs: [clean]", "type: delta, inputs: [per_minute]")


def said(query="q", batch=7):
    return {"query": query, "batch": batch}


def tip(end, **of):
    reached = TopicOffsets(ends={A: end}, topic_ids={"t": "id"})
    return Tip(reached=reached, txn_version=3, said=said(**of))


def batch(start, end):
    return Batch(start={A: start}, end=TopicOffsets(ends={A: end}, topic_ids={"t": "id"}))


DECISIONS = [
    ("first", 0, batch(0, 5), None, Commit),
    ("next", 8, batch(5, 9), tip(5), Commit),
    ("next without records", 8, batch(5, 5), tip(5), Commit),
    ("there", 7, batch(2, 5), tip(5), Skip),
    ("there, without records", 7, batch(5, 5), tip(5), Skip),
    ("there long since", 6, batch(1, 2), tip(5), Skip),
    ("one was left out", 9, batch(5, 9), tip(5), Verdict.TABLE_BEHIND),
    ("of another query", 8, batch(5, 9), tip(5, query="p"), Verdict.STATE_ELSEWHERE),
    ("elsewhere", 8, batch(4, 9), tip(5), Verdict.OVERLAP),
    ("its records are there", 8, batch(2, 5), tip(5), Verdict.OVERLAP),
    ("gap", 8, batch(6, 9), tip(5), Verdict.GAP),
]


@pytest.mark.parametrize(("number", "of", "at", "decision"), [each[1:] for each in DECISIONS],
                         ids=[each[0] for each in DECISIONS])  # fmt: skip
def test_a_batch_of_a_state_is_told_by_its_query_and_its_number(number, of, at, decision):
    found = decide_in_turn(number, "q", of, at)

    if isinstance(decision, Verdict):
        assert isinstance(found, Stop)
        assert found.verdict is decision
        return
    assert isinstance(found, decision)
    if isinstance(found, Commit) and at is not None:
        assert (found.start, found.txn_version) == ({A: 5}, 4)


def recorded(number):
    return Recorded(batch=number, end=TopicOffsets(ends={A: 5}))


def checkpoint(planned, committed):
    done = None if committed is None else recorded(committed)
    return Checkpoint(planned=recorded(planned), committed=done)


STARTS = [
    ("nothing yet", None, "", None, False, None),
    ("a first batch was planned", checkpoint(0, None), "q", None, True, None),
    ("the last batch is done", checkpoint(7, 7), "q", tip(5), True, None),
    ("the table has the planned one", checkpoint(7, 6), "q", tip(5), True, None),
    ("the table has not the planned one", checkpoint(8, 7), "q", tip(5), True, None),
    ("the first is in the table alone", checkpoint(0, None), "q", tip(5, batch=0), False, None),
    ("no checkpoint", None, "", tip(5), False, Verdict.STATE_GONE),
    ("no state in it", checkpoint(7, 7), "q", tip(5), False, Verdict.STATE_GONE),
    ("no state, no table", checkpoint(7, 7), "q", None, False, Verdict.STATE_GONE),
    ("another's", checkpoint(7, 7), "p", tip(5), True, Verdict.STATE_ELSEWHERE),
    ("the table was restored", checkpoint(9, 8), "q", tip(5), True, Verdict.TABLE_BEHIND),
    ("the checkpoint was", checkpoint(6, 5), "q", tip(5), True, Verdict.TABLE_AHEAD),
    ("others know more", checkpoint(7, 7), "q", Unreadable(txn_version=3), True, None),
    ("the table is gone", checkpoint(7, 7), "q", None, True, None),
]


@pytest.mark.parametrize(
    ("of", "query", "at", "has_state", "verdict"),
    [each[1:] for each in STARTS],
    ids=[each[0] for each in STARTS],
)
def test_a_state_is_of_the_tables_last_batch_or_stops(of, query, at, has_state, verdict):
    found = state_stop(of, query, at, has_state=has_state)

    assert (found.verdict if found else None) is verdict


def test_a_state_is_only_gone_on_with_by_the_words_that_made_it():
    transform = pipeline_of(WINDOWS).transforms["per_minute"]
    columns = {"clean": {"id": "int", "at": "timestamp"}}
    now = made_by(transform, columns)

    assert other_state({}, now) == ""
    assert other_state({"state": now, "batch": 3}, now) == ""
    assert "with none of the transforms" in other_state({"batch": 3}, now)
    assert "the file has none" in other_state({"state": now}, None)
    other = made_by(transform, {"clean": {"id": "bigint", "at": "timestamp"}})
    told = other_state({"state": now}, other)
    assert told.endswith('inputs was {"clean": {"at": "timestamp", "id": "int"}}')
    later = {**now, "watermark": {"clean": ["at", 1]}, "sql": "select 1"}
    assert "sql was `select window.start" in other_state({"state": now}, later)
    assert 'watermark was {"clean": ["at", 600000]}' in other_state({"state": now}, later)


def test_windows_are_read_drawn_and_known_to_editors(tmp_path):
    pipeline = pipeline_of(WINDOWS)
    (mark,) = pipeline.transforms["per_minute"].watermarks

    assert (mark.input, mark.column, mark.delay_ms) == ("clean", "at", 600_000)
    assert pipeline.stateful_of(pipeline.sinks["lake"]).name == "per_minute"
    assert linted(tmp_path, WINDOWS) == []
    (wrong,) = linted(tmp_path, WINDOWS.replace("window.start", "window.begin"))
    assert "`window` has no field `begin`" in wrong
    assert complaints(WINDOWS) == []


def test_a_state_is_no_part_of_a_declarative_pipeline():
    assert export(pipeline_of(WINDOWS)).missing == (
        "sinks.lake is left out: transform `per_minute` has a state",
    )


WRONG = [
    ("column: at", "column: att", "no column `att` in `clean`; did you mean `at`?"),
    ("column: at, ", "", "missing"),
    ("delay: 10m", "delay: soon", "such as 10m"),
    ("watermark: { clean", "watermark: { claen", "`claen` is not among the transform's inputs"),
    ("inputs: [clean]\n", "inputs: [clean, raw]\n", "of each input; missing: raw"),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_what_is_wrong_with_a_watermark_is_told_with_its_line(tmp_path, old, new, words):
    assert old in WINDOWS

    said = "\n".join(linted(tmp_path, WINDOWS.replace(old, new, 1)))

    assert words in said
    assert "transforms.per_minute.watermark" in said


def refused(text):
    with pytest.raises(Exception, match=r"f\.yaml:\d+:\d+: ") as error:
        pipeline_of(text)
    return str(error.value)


def test_what_does_not_go_together_with_a_state_is_refused():
    behind = WINDOWS.replace("sinks:", "  both: { inputs: [per_minute, clean], sql: x }\nsinks:", 1)
    behind = behind.replace("delta, inputs: [per_minute]", "delta, inputs: [both]")
    check = "checks:\n  some: { on: %s, expr: id > 0, action: %s }\nsinks:"

    assert "`both` reads `clean` beside `per_minute`" in refused(behind)
    assert "a check there is not supported yet" in refused(
        WINDOWS.replace("sinks:", check % ("clean", "drop"), 1)
    )
    assert "a row of `per_minute` is of many records" in refused(
        WINDOWS.replace("sinks:", check % ("per_minute", "dead_letter"), 1)
    )
    assert "expected fail: `per_minute` has a state" in refused(
        WINDOWS.replace("topics:", "on_data_loss: skip_and_record\n    topics:", 1)
    )
    pipeline_of(WINDOWS.replace("sinks:", check % ("per_minute", "drop"), 1))
