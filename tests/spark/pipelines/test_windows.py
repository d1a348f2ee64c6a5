"""Windows with a watermark: each closed window is in the table once, with all its rows, or the run
stops. The state is Spark's, so whatever dies, it and the table have to be of one batch."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from delta.tables import DeltaTable

from pipelines.base.errors import ChainError, ConfigError, RunError
from pipelines.dead_letters.replay import replays
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.inspect.file_tests import run_cases
from pipelines.inspect.plan import plan
from tests.spark.pipelines.files_lab import FilesLab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PIPELINE = """\
version: 1
name: windows
spark: { checkpoint: "${LAB}/ck" }
sources:
  events:
    type: file
    path: "${LAB}/events"
    limit: { bytes: "${BYTES:-4000}" }
    decode: { value: { format: json, schema: "n INT, k STRING, at TIMESTAMP", on_error: dead_letter } }
transforms:
  clean: { inputs: [events], sql: "select value.* from events" }
  per_minute:
    inputs: [clean]
    watermark: { clean: { column: at, delay: 10s } }
    sql: >
      select window.start as minute, k, count(*) as records, sum(n) as n
      from clean group by window(at, '1 minute'), k
  named: { inputs: [per_minute], sql: "select *, concat('key ', k) as name from per_minute" }
sinks:
  lake: { type: delta, inputs: [named], path: "${LAB}/lake", mode: append }
dead_letter: { type: delta, path: "${LAB}/dead" }
trigger: { available_now: true }
"""  # noqa: E501
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DELAY = timedelta(seconds=10)


class Lab(FilesLab):
    """A file of events that grows, a pipeline over it, and what its table has to have."""

    def __init__(self, spark, folder: Path) -> None:
        super().__init__(spark, folder, PIPELINE, ("events",))
        self.seconds: list[int] = []
        self.bad = 0

    def produce(self, *seconds: int) -> None:
        """Events so long after the beginning, and one line that is none."""
        for second in seconds:
            n = len(self.seconds)
            at = (BEGIN + timedelta(seconds=second)).isoformat()
            self.add("events", json.dumps({"n": n, "k": f"k{n % 2}", "at": at}))
            self.seconds.append(second)
        self.add("events", "not json")
        self.bad += 1

    def rows(self):
        return sorted(
            (row.minute.astimezone(UTC), row.k, row.records, row.n, row["name"])
            for row in self.collected()
        )

    def expected(self):
        """The closed windows of events of which none was late."""
        closed = BEGIN + timedelta(seconds=max(self.seconds)) - DELAY
        found: dict[tuple[datetime, str], list[int]] = {}
        for n, second in enumerate(self.seconds):
            minute = BEGIN + timedelta(minutes=second // 60)
            if minute + timedelta(minutes=1) <= closed:
                found.setdefault((minute, f"k{n % 2}"), []).append(n)
        return sorted(
            (minute, k, len(some), sum(some), f"key {k}") for (minute, k), some in found.items()
        )

    def check(self) -> None:
        assert self.rows() == self.expected()
        assert self.table("dead").count() == self.bad


@pytest.fixture
def lab(spark, tmp_path):
    return Lab(spark, tmp_path)


EVERY_DAY = ("after_commit_before_log", "after_commit_before_log@2")
"""The first batch, whose records make the first version of the state, and a batch of closed windows
and no record, which the table has and Spark's log has not. That data and state without a commit
change nothing is a join's test every day."""
FAILPOINTS = (
    *("after_offsets@2", "mid_write@2", "mid_commit:1@2", "mid_commit:2@3"),
    *("after_commit_before_log", "mid_write", "after_commit_before_log@3"),
)


@pytest.mark.long_proof(share=3, among="states of pipelines")
@pytest.mark.parametrize(
    ("fails", "bytes_max"),
    [(EVERY_DAY, 4000), pytest.param(FAILPOINTS, 200, marks=pytest.mark.slow)],
)
def test_closed_windows_are_there_once_with_all_their_rows_whatever_dies(lab, fails, bytes_max):
    """As long as the checkpoint is kept: without it there is no run. Every window has rows of
    several lives; among the batches are some without a record, whose rows no offset can tell."""
    lab.bytes = bytes_max
    for life, fail in enumerate(fails):
        lab.produce(*(life * 75 + second for second in (0, 8, 20, 14, 35, 50, 44, 70)))
        lab.die(fail)
    lab.produce(len(fails) * 75 + 65, len(fails) * 75 + 56)

    lab.run()

    lab.check()
    expected = lab.rows()
    assert len(expected) >= 3
    refuses_what_does_not_go_on(lab, expected)


def refuses_what_does_not_go_on(lab, expected):
    """And what comes late changes nothing either, but is counted."""
    lab.produce(20)
    assert lab.run().sinks["lake"].late == 1
    lab.write(PIPELINE.replace("1 minute", "2 minutes"))
    with pytest.raises(RunError, match=r"made by other words: sql was `select(.|\n)*Two ways out"):
        lab.run()
    lab.write(PIPELINE)
    shutil.rmtree(lab.folder / "ck")
    words = r"its state is gone(.|\n)*Two ways out(.|\n)*sink `lake`(.|\n)*mode: merge"
    with pytest.raises(ChainError, match=words):
        lab.run(Trust.TABLE)
    assert lab.rows() == expected


@pytest.mark.slow
def test_a_table_or_a_name_that_is_not_its_states_is_refused(lab):
    """As `test_watermarks.py` has it for values."""
    lab.produce(0, 30, 70, 130)
    lab.run()
    table = DeltaTable.forPath(lab.spark, f"{lab.folder}/lake")
    newest = table.history(1).collect()[0].version
    table.restoreToVersion(newest - 1)
    with pytest.raises(ChainError, match=r"has less than the checkpoint(.|\n)*Two ways out"):
        lab.run()
    table.restoreToVersion(newest)
    lab.write(PIPELINE.replace("windows\n", "other\n"))
    with pytest.raises(ChainError, match=r"of pipeline `windows`; a state continues under its own"):
        lab.run()
    lab.write(PIPELINE)
    shutil.move(lab.folder / "ck/windows.lake/state", lab.folder / "state")
    with pytest.raises(ChainError, match="its state is gone"):
        lab.run()

    lab.check()


SELECT = PIPELINE[PIPELINE.index("select window") : PIPELINE.index("  named:")]
NAMED = "select *, concat('key ', k) as name from per_minute"
REFUSED = [
    (SELECT, "select k, count(*) as n from clean group by k\n", ":15:10: .*nothing that it groups"),
    ("sum(n)", "sum(nn)", "`nn`"),
    ("as n\n", "as n, count(distinct n) as d\n", "(?i)distinct"),
    (
        "as minute,",
        "as minute, row_number() over (order by k) as r,",
        "Window has no state that is kept",
    ),
    ("column: at", "column: k", "(?i)timestamp"),
    (NAMED, "select k, count(*) as n from per_minute group by k", "GROUP BY needs more"),
    ("select value.* from", "select distinct value.* from", "DISTINCT .* needs more"),
]
CASE = """
tests:
  - name: all windows are closed
    given:
      events:
        - { value: { n: 1, k: a, at: "2026-01-01T00:00:10Z" } }
        - { value: { n: 2, k: a, at: "2026-01-01T00:00:50Z" } }
        - { value: not json }
    expect:
      lake: { rows: [ { k: a, records: 2, n: 3, name: key a } ], columns: subset }
"""


def test_plan_refuses_what_has_no_state_that_ends_and_tests_run_as_one_batch(lab):
    lab.write(PIPELINE + CASE)
    (planned,) = plan(lab.spark, lab.read())
    (outcome,) = run_cases(lab.spark, lab.read())

    assert [name for name, _ in planned.columns] == ["minute", "k", "records", "n", "name"]
    assert outcome.complaints == ()
    lab.write(PIPELINE.replace("'1 minute'", "'1 minute', '30 seconds'"))
    assert len(plan(lab.spark, lab.read())) == 1
    for old, new, words in REFUSED:
        assert old in PIPELINE
        lab.write(PIPELINE.replace(old, new))
        with pytest.raises(ConfigError, match=words):
            plan(lab.spark, lab.read())


@pytest.mark.slow
def test_dead_letters_are_not_replayed_into_a_state(lab):
    lab.produce(0, 30, 130)
    lab.add("events", '{"n": "one", "k": "k1", "at": "2026-01-01T00:00:10Z"}')
    lab.run()
    lab.write(PIPELINE.replace("n INT", "n STRING"))

    (outlook,) = replays(lab.spark, lab.read(), (), lambda replay: replay.run())

    assert outlook.planned == {}
    assert dict(outlook.held) == {
        "still: not JSON": 1,
        "sink `lake` has rows of a state, which gets no replay: name the others": 1,
    }
