"""Windows into a topic: each result once (append), or each change of it under its key (update),
whatever is killed. The state is Spark's, so a topic has the rows of the state's batches or the run
stops, as with a table (`test_windows.py`)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from josefine_broker.client.io_blocking import NewTopic
from josefine_broker.records.builder import Record
from pipelines.base.errors import ChainError, ConfigError, RunError
from pipelines.config.validate import read_pipeline
from pipelines.inspect.file_tests import run_cases
from pipelines.inspect.plan import plan
from tests.spark.pipelines.conftest import NOW_MS, Lab
from tests.support.committed import committed_records

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

BEGIN_S = 1_767_225_600
"""2026-01-01T00:00:00Z, the start of a minute."""
FILE = """\
version: 1
name: lab
spark:
  conf: {{ spark.sql.shuffle.partitions: 2 }}
  checkpoint: ${{LAB}}/checkpoints
sources:
  events:
    type: josefine
    bootstrap: ${{BOOTSTRAP}}
    topics: [{topic}]
    start: earliest
    limit: {{ rows: "${{ROWS:-40}}" }}
    decode: {{ value: {{ format: json, schema: "k STRING, at BIGINT", on_error: fail }} }}
transforms:
  clean:
    inputs: [events]
    sql: select value.k, timestamp_seconds(value.at) as at from events
  per_minute:
    inputs: [clean]
    watermark: {{ clean: {{ column: at, delay: 10s }} }}
    sql: >
      select unix_timestamp(window.start) as minute, k, count(*) as n
      from clean group by window(at, '1 minute'), k
sinks:
  out: {{ type: josefine, inputs: [per_minute], topic: {topic}-out, {sink} }}
trigger: {{ available_now: true }}
"""
APPEND = "mode: append, key: [minute, k]"
UPDATE = "mode: update, key: [minute, k]"

Window = tuple[int, str]


class WindowLab:
    """Events of a topic, a pipeline that counts them by minute and key, and the counts' topic."""

    def __init__(self, lab: Lab, sink: str) -> None:
        self.lab, self.events = lab, list[tuple[str, int]]()
        lab.client.create_topics([NewTopic(f"{lab.topic}-out", 2)])
        self.write(sink)

    def write(self, sink: str, old: str = "", new: str = "") -> None:
        text = FILE.format(topic=self.lab.topic, sink=sink)
        assert old in text
        self.lab.file.write_text(text.replace(old, new) if old else text)

    def produce(self, *events: tuple[str, int]) -> None:
        """(key, seconds after the beginning), all into one partition, so that none is late."""
        values = [json.dumps({"k": k, "at": BEGIN_S + at}).encode() for k, at in events]
        self.lab.append(0, [Record(None, value, (), NOW_MS) for value in values])
        self.events += events

    def counts(self, seconds: int | None = None) -> Counter[Window]:
        """Of all windows, or of those that end at these seconds at the latest."""
        every = Counter((at // 60, k) for k, at in self.events)
        return Counter(
            {w: n for w, n in every.items() if seconds is None or (w[0] + 1) * 60 <= seconds}
        )

    def closed(self) -> Counter[Window]:
        return self.counts(max(at for _, at in self.events) - 10)

    def records(self) -> list[tuple[Window, Any]]:
        """(window, value) of the committed records; those of one key in their order."""
        found = []
        for each in committed_records(self.lab.client, f"{self.lab.topic}-out"):
            key = json.loads(each.key or b"")
            value = json.loads(each.value) if each.value is not None else None
            found.append((((key["minute"] - BEGIN_S) // 60, key["k"]), value))
        return found

    def last(self) -> dict[Window, int]:
        """What a compacted topic would keep."""
        return {window: value["n"] for window, value in self.records() if value is not None}


@pytest.mark.long_proof(share=3, among="states of pipelines")
def test_a_closed_window_is_one_record_of_a_topic_whatever_dies(lab: Lab) -> None:
    """Killed between the decision and the checkpoint's log, and between rows and decision."""
    of = WindowLab(lab, APPEND)
    of.produce(("a", 5), ("b", 20), ("a", 58), ("a", 62))
    lab.die("mid_commit:2", rows=2)
    of.produce(("a", 75), ("b", 125), ("a", 170))
    lab.die("mid_write@2", rows=2)

    lab.run(rows=2)

    found = [(window, value["n"]) for window, value in of.records()]
    assert sorted(found) == sorted(of.closed().items())
    lab.lose_checkpoint()
    with pytest.raises(
        ChainError, match=r"its topic is there(.|\n)*new `topic` in(.|\n)*mode: merge"
    ):
        lab.run()


@pytest.mark.long_proof(share=3, among="states of pipelines")
def test_each_change_of_a_window_is_one_record_and_the_last_one_its_count(lab: Lab) -> None:
    of = WindowLab(lab, UPDATE)
    of.produce(("a", 5), ("b", 20), ("a", 58), ("a", 62))
    lab.die("mid_commit:2", rows=2)
    of.produce(("a", 55), ("b", 65), ("b", 66), ("a", 70))
    lab.die("mid_write@2", rows=2)

    lab.run(rows=2)

    assert of.last() == of.counts()
    assert max(Counter(map(json.dumps, of.records())).values()) == 1, "no change is there twice"


SESSIONS = "mode: append, key: [minute, k]"
TABLE = 'lake: { type: delta, inputs: [per_minute], path: "${LAB}/tables/lake", mode: append }'


@pytest.mark.long_proof(share=3, among="states of pipelines")
def test_a_session_over_several_batches_is_one_row_of_a_table_and_one_record(lab: Lab) -> None:
    """30 s after its last event a session is closed; `a` has two, of which batches see parts."""
    of = WindowLab(lab, SESSIONS)
    text = lab.file.read_text().replace(
        "window(at, '1 minute')", "session_window(at, '30 seconds')"
    )
    text = text.replace("unix_timestamp(window.start)", "unix_timestamp(session_window.start)")
    lab.file.write_text(text.replace("sinks:\n", f"sinks:\n  {TABLE}\n"))
    of.produce(("a", 0), ("b", 4), ("a", 20), ("a", 40), ("a", 95), ("b", 100), ("c", 300))

    lab.run(rows=2)

    expected = [(0, "a", 3), (4, "b", 1), (95, "a", 1), (100, "b", 1)]
    rows = [(r["minute"] - BEGIN_S, r["k"], r["n"]) for r in lab.arrow("lake").to_pylist()]
    assert sorted(rows) == expected
    read = committed_records(lab.client, f"{lab.topic}-out")
    both = [{**json.loads(r.key or b""), **json.loads(r.value or b"")} for r in read]
    assert sorted((r["minute"] - BEGIN_S, r["k"], r["n"]) for r in both) == expected


@pytest.mark.slow
def test_a_change_without_its_key_stops_the_run_and_a_condition_makes_tombstones(lab: Lab) -> None:
    of = WindowLab(lab, "mode: update, key: k, tombstone_when: n = 2")
    lab.append(0, [Record(None, json.dumps({"at": BEGIN_S}).encode(), (), NOW_MS)])
    with pytest.raises(RunError, match="`k` is null, and each change needs a key: expected coale"):
        lab.run()

    of.write("mode: update, key: [minute, k], tombstone_when: n = 2")
    of.produce(("a", 5), ("b", 6))
    lab.run(rows=2)
    of.produce(("a", 7))
    lab.run(rows=2)

    found = [(window, value and value["n"]) for window, value in of.records() if window[1]]
    assert sorted(found, key=str) == [((0, "a"), 1), ((0, "a"), None), ((0, "b"), 1)]


GROUPED = "group by window(at, '1 minute'), k"
NO_CHANGES = [
    (GROUPED, f"{GROUPED} having count(*) > 1", r":\d+: .*a condition \(WHERE, H"),
    ("from clean " + GROUPED, "from (select session_window.start as s, k, count(*) as n from clean "
     "group by session_window(at, '1 minute'), k)", "Spark gives no changes of `session_window`"),
    ("sinks:", "  big: { inputs: [per_minute], sql: select * from per_minute where n > 1 }\nsinks:",
     "would leave a change out"),
    ("key: [minute, k]", "key: [minute, kk]", "no column kk in `per_minute`"),
]  # fmt: skip
CASE = """
tests:
  - name: a change is the count of its window
    given: { events: [ { value: { k: a, at: 1767225601 } }, { value: { k: a, at: 1767225602 } } ] }
    expect: { out: { rows: [ { key: { minute: 1767225600, k: a }, value: { n: 2 } } ] } }
"""


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_plan_refuses_what_gives_no_changes_and_a_test_has_one_batch(lab: Lab) -> None:
    WindowLab(lab, UPDATE)
    text = lab.file.read_text()
    environment = lab.environment(1)
    lab.file.write_text(text + CASE)
    read = read_pipeline(lab.file, environment)
    (planned,) = plan(lab.spark, read)
    assert [name for name, _ in planned.columns] == ["key", "value"]
    (outcome,) = run_cases(lab.spark, read)
    assert outcome.complaints == ()

    for old, new, words in NO_CHANGES:
        assert old in text
        wrong = text.replace(old, new)
        if "  big:" in new:
            wrong = wrong.replace("inputs: [per_minute], topic", "inputs: [big], topic")
        if "as s" in new:
            wrong = wrong.replace("unix_timestamp(window.start) as minute, k, count(*) as n",
                                  "unix_timestamp(s) as minute, k, n")  # fmt: skip
        lab.file.write_text(wrong)
        with pytest.raises(ConfigError, match=words):
            plan(lab.spark, read_pipeline(lab.file, environment))
