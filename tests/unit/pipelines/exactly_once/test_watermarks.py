"""`watermark` in a file, and the chain that a state follows: by values, without Spark."""

from __future__ import annotations

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import RunError
from pipelines.exactly_once.checkpoint import CheckpointFiles
from pipelines.exactly_once.checkpoint_start import Checkpoint, Recorded, Start, Unreadable
from pipelines.exactly_once.offset_chain import Batch, Commit, Skip, Stop, Tip, Verdict, together
from pipelines.exactly_once.state_chain import (
    decide_in_turn,
    made_by,
    other_state,
    start_again,
    state_stop,
)
from pipelines.inspect.sdp import export
from pipelines.model.pipeline import Mode
from pipelines.model.plan import compile_plan
from pipelines.sources.josefine import Topics, topics_together
from tests.unit.pipelines.config.test_json_schema import complaints
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.memory import MemoryFiles, offset_text, parse_offset_text, wal_text
from tests.unit.pipelines.transforms.test_lookups import linted, pipeline_of

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


AGAIN = Tip(reached=TopicOffsets(), txn_version=3)
"""The end of a chain in a topic that was created again: only the numbers continue."""
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
    ("first of a topic that was created again", 0, batch(0, 5), AGAIN, Commit),
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
        assert (found.start, found.txn_version) == ({A: at.reached.ends.get(A, 0)}, 4)


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
    ("the topic is another", checkpoint(7, 7), "q", AGAIN, True, Verdict.TABLE_HAS_NOTHING),
    ("both begin again", None, "", AGAIN, False, None),
]


@pytest.mark.parametrize(
    ("of", "query", "at", "has_state", "verdict"),
    [each[1:] for each in STARTS],
    ids=[each[0] for each in STARTS],
)
def test_a_state_is_of_the_tables_last_batch_or_stops(of, query, at, has_state, verdict):
    found = state_stop(of, query, at, has_state=has_state)

    assert (found.verdict if found else None) is verdict


def test_the_first_batch_is_read_again_until_the_checkpoint_has_committed_it():
    """The table may have it already; its state is written by reading its records again."""
    first = Recorded(batch=0, end=TopicOffsets(ends={A: 5}, first={A: 2}))
    agreed = Start(at={A: 5}, tip=tip(5, batch=0))

    again = start_again(agreed, Checkpoint(planned=first, committed=None))

    assert (again.at, again.tip) == ({A: 2}, agreed.tip)
    assert start_again(agreed, Checkpoint(planned=first, committed=first)) == agreed
    assert start_again(agreed, None) == agreed


def test_a_state_does_not_change_between_final_results_and_changes():
    transform = pipeline_of(WINDOWS).transforms["per_minute"]
    final, changes = made_by(transform, {}), made_by(transform, {}, Mode.UPDATE)

    assert other_state({"state": final}, changes).endswith(": mode was append")
    assert other_state({"state": changes}, final).endswith(": mode was update")
    assert other_state({"state": changes}, changes) == ""


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
    assert compile_plan(pipeline).sinks["lake"].stateful.name == "per_minute"
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

    assert "`both` reads `clean` next to `per_minute`" in refused(behind)
    assert "a check there is not supported yet" in refused(
        WINDOWS.replace("sinks:", check % ("clean", "drop"), 1)
    )
    assert "a row of `per_minute` comes from many records" in refused(
        WINDOWS.replace("sinks:", check % ("per_minute", "dead_letter"), 1)
    )
    assert "expected fail: `per_minute` has state" in refused(
        WINDOWS.replace("topics:", "on_data_loss: skip_and_record\n    topics:", 1)
    )
    pipeline_of(WINDOWS.replace("sinks:", check % ("per_minute", "drop"), 1))


PAID = """\
  paid:
    type: josefine
    bootstrap: localhost:9092
    topics: [payments]
    decode: { value: { format: json, schema: "id INT", on_error: fail } }
"""
ON = "p.id = o.id and p.at >= o.at and p.at <= o.at + interval 15 minutes"
JOINED = (
    GOOD.replace("transforms:", PAID + "transforms:")
    .replace(CLEAN, "{ inputs: [raw], sql: 'select value.*, timestamp as at from raw' }")
    .replace(
        "sinks:",
        f"""  payments: {{ inputs: [paid], sql: 'select value.*, timestamp as at from paid' }}
  both:
    inputs: [clean, payments]
    watermark: {{ clean: {{ column: at, delay: 10m }}, payments: {{ column: at, delay: 5m }} }}
    sql: "select o.id, p.at from clean o left join payments p on {ON}"
sinks:""",
    )
    .replace("type: delta, inputs: [clean]", "type: delta, inputs: [both]")
)


def test_two_streams_are_joined_by_a_transform_that_has_a_watermark_of_each(tmp_path):
    pipeline = pipeline_of(JOINED)

    plan = compile_plan(pipeline)
    assert [one.name for one in plan.sinks["lake"].sources] == ["raw", "paid"]
    assert linted(tmp_path, JOINED) == []
    assert complaints(JOINED) == []
    start = JOINED.index("    watermark:")
    without = JOINED[:start] + JOINED[JOINED.index("\n", start) + 1 :]
    assert "rows of several sources (raw, paid) come together: expected a transform that" in (
        refused(without)
    )


BOUNDS = [
    (ON, ""),
    ("p.id = o.id and p.at between o.at and o.at + interval 15 minutes", ""),
    ("p.id = o.id and p.at = o.at", ""),
    ("p.id = o.id", "wait for ever"),
    ("p.id = o.id and p.at >= o.at", "wait for ever"),
    ("p.id = o.id and p.at >= now() and o.at <= now()", "wait for ever"),
]


@pytest.mark.parametrize(("on", "words"), BOUNDS)
def test_a_join_says_how_long_a_row_waits_for_its_pair(tmp_path, on, words):
    said = linted(tmp_path, JOINED.replace(ON, on))

    assert words in "".join(said)
    assert bool(said) is bool(words)


JOIN_WRONG = [
    ("topics: [payments]", "pattern: pay.*", "`both` joins it: expected `topics`"),
    ("topics: [payments]", "assign: { payments: [0] }", "`both` joins it: expected `topics`"),
    ("inputs: [paid]", "inputs: [raw]", "a join of source `raw` with itself is not supported yet"),
]


@pytest.mark.parametrize(("old", "new", "words"), JOIN_WRONG)
def test_what_a_joined_source_may_not_say_is_refused(old, new, words):
    assert old in JOINED

    assert words in refused(JOINED.replace(old, new))


def test_the_offsets_of_joined_sources_are_together_and_apart():
    one = TopicOffsets(ends={A: 5}, first={A: 1}, topic_ids={"t": "id"})
    other = TopicOffsets(ends={("u", 0): 7}, topic_ids={"u": "id2"})

    both = together([one, other])

    assert both.ends == {A: 5, ("u", 0): 7}
    assert both.first == {A: 1}
    assert both.topic_ids == {"t": "id", "u": "id2"}
    part = Batch(start={A: 2}, end=both).of_topics({"t"})
    assert (part.end.ends, part.starts[A]) == ({A: 5}, 2)
    looked = {"a": Topics(earliest={A: 0}, latest=one), "b": Topics(earliest={A: 0}, latest=one)}
    with pytest.raises(RunError, match="`a` and `b` have a topic in common, t"):
        topics_together(looked)


def test_a_batch_of_two_sources_is_read_from_the_checkpoint():
    files = MemoryFiles()
    lines = [offset_text({A: 5}, {A: 0}, {"t": "id"}), "-"]
    files.texts["/ck/offsets/0"] = wal_text("\n".join(lines))
    lines[1] = offset_text({("u", 0): 7}, {("u", 0): 3}, {"u": "id2"})
    files.texts["/ck/offsets/1"] = wal_text("\n".join(lines))

    batch = CheckpointFiles(files, "/ck", parse_offset_text).batch(1)

    assert batch.end.ends == {A: 5, ("u", 0): 7}
    assert (batch.starts[A], batch.starts[("u", 0)]) == (5, 3)
