"""A Python class with a state and timers: its rows are there once, whatever dies, by state and
table of one batch."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipelines.base.errors import ChainError, ConfigError, RunError
from pipelines.inspect.file_tests import run_cases
from pipelines.inspect.plan import plan
from tests.spark.pipelines.files_lab import FilesLab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

CLASS = """\
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

class Silent(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.seen = handle.getValueState("seen", "n INT")

    def handleInputRows(self, key, rows, timerValues):
        times = [row.at.timestamp() for row in rows]
        n = len(times) + (self.seen.get()[0] if self.seen.exists() else 0)
        limit = 100 / (n - 9)
        self.seen.update((n,))
        for timer in self.handle.listTimers():
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(int((max(times) + 30) * 1000))
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        n = self.seen.get()[0]
        self.seen.clear()
        yield Row(k=key[0], n=n)

    def close(self):
        pass
"""
PIPELINE = """\
version: 1
name: silent
spark: { checkpoint: "${LAB}/ck" }
sources:
  events:
    type: file
    path: "${LAB}/events"
    limit: { bytes: "${BYTES:-4000}" }
    decode: { value: { format: json, schema: "k STRING, at TIMESTAMP", on_error: fail } }
transforms:
  clean: { inputs: [events], sql: "select value.* from events" }
  silent:
    inputs: [clean]
    python: silent.py:Silent
    watermark: { clean: { column: at, delay: 10s } }
    state: { keys: [k], schema: "k STRING, n INT", timers: event_time }
sinks:
  lake: { type: delta, inputs: [silent], path: "${LAB}/lake", mode: append }
trigger: { available_now: true }
"""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Lab(FilesLab):
    """Events of keys; a key that is silent for 30 s is a row with the number of its events."""

    def __init__(self, spark, folder: Path) -> None:
        (folder / "silent.py").write_text(CLASS)
        super().__init__(spark, folder, PIPELINE, ("events",))

    def produce(self, *events: tuple[str, int]) -> None:
        for k, second in events:
            at = (BEGIN + timedelta(seconds=second)).isoformat()
            self.add("events", json.dumps({"k": k, "at": at}))

    def rows(self):
        return sorted((row.k, row.n) for row in self.collected())


@pytest.fixture
def lab(spark, tmp_path):
    return Lab(spark, tmp_path)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_timer_of_a_class_gives_its_row_when_the_watermark_passes_it(lab):
    lab.produce(("a", 0), ("a", 5), ("b", 6), ("c", 100))

    lab.run()

    assert lab.rows() == [("a", 2), ("b", 1)]


@pytest.mark.slow
def test_the_rows_of_a_class_are_there_once_with_its_state_whatever_dies(lab):
    """Of a first batch that the table has and the checkpoint has not; the other deaths are those
    of windows (`test_windows.py`)."""
    lab.produce(("a", 0), ("a", 5), ("b", 6))
    lab.die("after_commit_before_log")
    lab.produce(("a", 20), ("c", 100))

    lab.run()

    assert lab.rows() == [("a", 3), ("b", 1)]


@pytest.mark.slow
def test_another_store_is_refused_and_an_error_of_the_class_named_with_its_line(lab):
    lab.produce(("a", 0))
    lab.run()
    refuses_another_store(lab)
    names_the_line_of_an_error(lab)


def refuses_another_store(lab):
    for file in (lab.folder / "ck/silent.lake/offsets").glob("[0-9]*"):
        text = file.read_text()
        file.write_text(text.replace("RocksDBStateStoreProvider", "HDFSBackedStateStoreProvider"))
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    words = "its state store is HDFSBackedStateStoreProvider, and the class of `silent` needs Rocks"
    with pytest.raises(ChainError, match=words):
        lab.run()
    for file in (lab.folder / "ck/silent.lake/offsets").glob("[0-9]*"):
        text = file.read_text()
        file.write_text(text.replace("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"))


def names_the_line_of_an_error(lab):
    lab.produce(*[("d", 101)] * 9)
    words = r"sink `lake`: transform `silent`: .*silent.py:12: ZeroDivisionError: .*"
    with pytest.raises(RunError, match=words) as error:
        lab.run()
    assert "\n" not in str(error.value)


TESTS = """
tests:
- name: a silent key is a row once the watermark has passed it
  given:
    events:
    - { value: { k: a, at: 2026-01-01T00:00:00Z } }
    - { value: { k: a, at: 2026-01-01T00:00:05Z } }
    - { value: { k: b, at: 2026-01-01T00:00:40Z }, batch: 2 }
    - { value: { k: a, at: 2026-01-01T00:00:29Z }, batch: 3 }
    - { value: { k: c, at: 2026-01-01T00:01:20Z }, batch: 3 }
  expect:
    lake: { rows: [ { k: a, n: 2 }, { k: b, n: 1 } ] }
    clean: { count: 5 }
- name: it fails
  given: { events: [ %s{ value: { k: a, at: 2026-01-01T00:00:00Z } } ] }
  expect: { lake: { count: 0 } }
"""


def test_a_test_of_the_file_gives_a_class_its_batches(lab):
    """The row of `a` in the third batch is late by then, as it would be in a run."""
    lab.write(PIPELINE + TESTS % ("{ value: { k: a, at: 2026-01-01T00:00:00Z } }, " * 8))

    rings, fails = run_cases(lab.spark, lab.read())

    assert rings.complaints == ()
    assert len(fails.complaints) == 1
    assert re.search(r"`silent`: .*silent.py:12: ZeroDivisionError", fails.complaints[0])


REFUSED = [
    ("keys: [k]", "keys: [kk]", r"silent.state.keys: no column kk in `clean`; it has: k, at"),
    ('schema: "k STRING, n INT"', 'schema: "k STRONG"', r":\d+:.*silent.state.schema: .*STRONG"),
]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_plan_names_what_spark_refuses_of_a_class(lab):
    (planned,) = plan(lab.spark, lab.read())
    assert planned.columns == (("k", "string"), ("n", "int"))

    for old, new, words in REFUSED:
        assert old in PIPELINE
        lab.write(PIPELINE.replace(old, new))
        with pytest.raises(ConfigError, match=words):
            plan(lab.spark, lab.read())
    lab.write(PIPELINE)
    for old, new, words in (
        ("class Silent(StatefulProcessor)", "class Silent", "is not a class with a state"),
        ("    def init(self", "    def __init__(self):\n        1 / 0\n\n    def init(self",
         r"silent.py:6: ZeroDivisionError"),
    ):  # fmt: skip
        (lab.folder / "silent.py").write_text(CLASS.replace(old, new))
        with pytest.raises(ConfigError, match=words):
            plan(lab.spark, lab.read())
