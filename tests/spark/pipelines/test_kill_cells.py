"""Every cell of `tests/support/kill_cells.py`: one death, then a run to the end, then the sink
against a model: frame by frame in Spark (chispa), and by an engine that is not Spark (delta-rs;
librdkafka of a topic).

`-m slow` kills a process with its JVM at each place, with pipelines of all modes in it. Every day
some are died in place (`conftest.dying`). A cell stands by itself: its own topic, tables and
checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pytest
from chispa import assert_df_equality
from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as Assigned

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import NewTopic
from josefine_broker.records.builder import Record
from pipelines.base.errors import ChainError, RunError
from pipelines.config.validate import read_pipeline
from pipelines.dead_letters.replay import Replay, replays
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.exactly_once.offset_chain import Tip
from pipelines.inspect.sink_status import all_sides
from pipelines.model.pipeline import Pipeline
from pipelines.sinks.iceberg.catalog import TablePlace
from pipelines.sources.kinds import ANY_KIND
from tests.spark.pipelines.conftest import NOW_MS, REPOSITORY, DiedError, Lab, dying
from tests.spark.pipelines.test_kill import KILLED
from tests.support.kill_cells import (
    CHECKPOINTS,
    PLACES,
    POSSIBLE,
    REFUSED,
    STATE_TOPICS,
    STATES,
    TOGETHER,
    TOPICS,
    UPKEEP,
    Cell,
)
from tests.support.kill_models import MODELS, Event, Model, envelope, event
from tests.support.quick_spark import SPARK

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

FILE = """\
version: 1
name: lab
%(spark)ssources:
  events:
    type: josefine
    bootstrap: ${BOOTSTRAP}
    topics: [%(topic)s]
    start: earliest
    limit: { rows: "${ROWS:-40}" }
    %(loss)s
    decode: { value: { format: %(format)s, schema: "id INT, k STRING, v INT", on_error: dead_letter } }
transforms:
  rows: { inputs: [events], sql: "select %(select)s from events" }
%(more)s
sinks:
  out:
    inputs: [%(input)s]
%(sink)s
%(chores)s
dead_letter: { type: delta, path: "${LAB}/tables/dead" }
trigger: { available_now: true }
"""  # noqa: E501
TABLE = '    type: delta\n    path: "${LAB}/tables/out"\n    mode: '
WORDS = {
    "append": f"{TABLE}append",
    "deduplicate": f"{TABLE}append\n    deduplicate: {{ keys: [k] }}",
    "merge": f"{TABLE}merge\n    keys: [k]\n    aggregate: {{ records: count(*), v_sum: sum(v) }}",
    "upsert": f"{TABLE}upsert\n    keys: [k]\n    order_by: id",
    "cdc": f"{TABLE}upsert\n    keys: [k]\n    order_by: lsn\n    delete_when: gone",
    "scd2": f"{TABLE}scd2\n    keys: [k]\n    order_by: id",
    "topic": "    type: josefine\n    topic: %(topic)s-out\n    key: id",
    "at_least_once": (
        "    type: josefine\n    topic: %(topic)s-out\n    key: id\n    delivery: at_least_once"
    ),
    "state": f"{TABLE}append",
    "state_topic": "    type: josefine\n    topic: %(topic)s-out\n    key: [begin, k]",
    "update": (
        "    type: josefine\n    topic: %(topic)s-out\n    key: [begin, k]\n    mode: update"
    ),
    "iceberg": (
        "    type: iceberg\n    mode: append\n    table: lab.out\n"
        '    catalog: { warehouse: "${LAB}/warehouse" }'
    ),
}
"""Mode → what its sink says."""
PLACE = "topic, partition, offset"
SELECTS = {
    "cdc": f"value.row.*, value.deleted as gone, value.source.lsn as lsn, {PLACE}",
    **dict.fromkeys(STATES, "value.*, timestamp_seconds(value.id * 30) as at"),
}
CHECK = '  tens: { on: rows, expr: "%s", action: dead_letter }'
HELD_BACK = 4
"""Events whose number ends with it are letters by a check, until the file is mended."""
WINDOWS = """\
  windows:
    inputs: [rows]
    watermark: { rows: { column: at, delay: 10m } }
    sql: >
      select unix_timestamp(window.start) as begin, k, count(*) as records, sum(v) as v_sum
      from rows group by window(at, '10 minutes'), k
"""


class Sent(NamedTuple):
    """A record; `n` is None of one that is no event."""

    partition: int
    offset: int
    n: int | None


@dataclass
class Trial:
    """One cell's sink, what was sent to it, and what becomes of both."""

    lab: Lab
    cell: Cell
    sent: list[Sent] = field(default_factory=list)
    lost: set[tuple[int, int]] = field(default_factory=set)
    mended: int = 0
    """How many records were sent before the file was mended, so that letters may come back."""

    def begin(self) -> None:
        if self.cell.mode in TOPICS:
            self.lab.client.create_topics([NewTopic(f"{self.lab.topic}-out", 2)])
        self.write_file()
        self.send(40)

    def write_file(self, loss: str = "fail") -> None:
        mode, topic = self.cell.mode, self.lab.topic
        condition = "id >= 0" if self.mended else f"id % 10 <> {HELD_BACK}"
        is_state = mode in STATES
        words = {
            "spark": SPARK,
            "topic": topic,
            "loss": f"on_data_loss: {loss}",
            "format": "debezium" if mode == "cdc" else "json",
            "select": SELECTS.get(mode, f"value.*, {PLACE}"),
            "more": WINDOWS if is_state else f"checks:\n{CHECK % condition}",
            "input": "windows" if is_state else "rows",
            "sink": WORDS[mode].replace("%(topic)s", topic),
            "chores": "    optimize: { every: 2 batches }" * (self.cell.place in UPKEEP),
        }
        self.lab.file.write_text(FILE % words)

    def send(self, count: int) -> None:
        """Events in both partitions, and in each of them what is none among them."""
        make = envelope if self.cell.mode == "cdc" else event
        first = sum(each.n is not None for each in self.sent)
        ends = {p: sum(each.partition == p for each in self.sent) for p in range(2)}
        records: dict[int, list[bytes]] = {0: [], 1: []}
        for n in range(first, first + count):
            some = records[n % 2]
            if len(some) % 6 == 3:
                self.sent.append(Sent(n % 2, ends[n % 2] + len(some), None))
                some.append(b"not json")
            self.sent.append(Sent(n % 2, ends[n % 2] + len(some), n))
            some.append(json.dumps(make(n)).encode())
        for partition, values in records.items():
            batch = [Record(b"key", value, (), NOW_MS) for value in values]
            self.lab.append(partition, batch)

    # -- the death -----------------------------------------------------------------------------

    def nears(self) -> None:
        """All that comes before the run, or the replay, that dies: a batch of it is there."""
        place = self.cell.place
        if place == "mid_loss:2":
            # Only its checkpoint knows where it began.
            self.dies("before_commit")
            self.loses_records(0)
            return
        self.lab.run()
        if place.startswith("mid_replay"):
            self.mended = len(self.sent)
            self.write_file()
            return
        end = self.lab.topic_ends()[self.lab.topic, 1]
        self.send(34)
        if place.startswith("mid_loss"):
            self.loses_records(end)

    def dies(self, place: str) -> None:
        """In place."""
        verb = verb_of(place)
        with dying(place):
            how = Trust.TABLE if verb == "trust" else Trust.NEITHER
            do = self.replay if verb == "replay" else partial(self.lab.run, rows=15, trust=how)
            if place == "fail_write":
                do()
                assert [each[2] for each in self.lab.reporter.retries] == ["a Python worker died"]
                return
            with pytest.raises((RunError, DiedError), match="it died at"):
                do()

    def loses_records(self, begin: int) -> None:
        """Retention takes some that the pipeline has not read, which it may pass over."""
        self.lab.client.delete_records({TopicPartition(self.lab.topic, 1): begin + 9})
        self.lost = {(1, offset) for offset in range(begin, begin + 9)}
        self.write_file(loss="skip_and_record")

    def replay(self) -> None:
        replays(self.lab.spark, self.pipeline(), (), Replay.run)

    # -- what comes after ----------------------------------------------------------------------

    def goes_on(self) -> None:
        """A run to the end, or the refusal of one."""
        if self.cell.checkpoint == "deleted":
            self.lab.lose_checkpoint()
        refusal = REFUSED.get(self.cell.mode) if self.cell.checkpoint == "deleted" else None
        if refusal:
            with pytest.raises(ChainError, match=refusal):
                self.lab.run()
            return
        self.lab.run()
        if self.mended:
            self.replay()

    def check(self) -> None:
        lab, mode = self.lab, self.cell.mode
        kept = [r for r in self.sent if (r.partition, r.offset) not in self.lost]
        checked = [] if mode in STATES else [r for r in kept if r.n is not None]
        held = [
            r
            for r in checked
            if r.n % 10 == HELD_BACK and (not self.mended or self.sent.index(r) < self.mended)
        ]
        events = [r.n for r in kept if r.n is not None and (self.mended or r not in held)]
        model = MODELS[mode]
        expected = model.rows(events)
        if REFUSED.get(mode) and self.cell.checkpoint == "deleted":
            # The last change of a window may be one of before the death.
            if mode == "update":
                assert {(r["begin"], r["k"]) for r in self.others(model)} <= {
                    (r["begin"], r["k"]) for r in expected
                }
                return
            spare = Counter(map(_plain, self.others(model))) - Counter(map(_plain, expected))
            assert not spare, "rows twice or wrong in a table whose state is gone"
            return
        assert expected
        assert Counter(map(_plain, self.others(model))) == Counter(map(_plain, expected))
        found = self.sparks(model)
        frame = lab.spark.createDataFrame([tuple(row.values()) for row in expected], model.columns)
        assert_df_equality(found, frame, ignore_row_order=True, ignore_nullable=True)
        dead = sorted((r["partition"], r["offset"]) for r in lab.arrow("dead").to_pylist())
        assert dead == sorted((r.partition, r.offset) for r in kept if r.n is None or r in held)
        if mode == "iceberg":
            tip = all_sides(self.pipeline(), ANY_KIND.look)[0].tip
            assert isinstance(tip, Tip)
            assert tip.reached.ends == lab.topic_ends()
        elif mode not in TOPICS:
            assert lab.chain_ends("out", "out") == lab.topic_ends()
        assert lab.chain_ends("dead", "dead_letter.events") == lab.topic_ends()
        if self.lost:
            self.check_losses()

    def check_losses(self) -> None:
        beside = self.cell.mode in (*TOPICS, "iceberg")
        where = "../checkpoints/lab.out.lost" if beside else "out_lost"
        if beside and self.cell.checkpoint == "deleted":
            return  # it lay beside the checkpoint
        ranges = self.lab.arrow(where).to_pylist()
        said = [
            (r["partition"], n) for r in ranges for n in range(r["start_offset"], r["end_offset"])
        ]
        assert sorted(said) == sorted(self.lost)

    def others(self, model: Model) -> list[Event]:
        """The rows by an engine that is not Spark."""
        names = _names(model)
        if self.cell.mode in STATE_TOPICS:
            return self.results()
        if self.cell.mode in TOPICS:
            read = [{"id": int(key), **json.loads(value)} for key, value in self.read()]
            return self.once([{name: row[name] for name in names} for row in read])
        if self.cell.mode == "iceberg":
            found: list[Event] = self.iceberg().scan().select(*names).to_arrow().to_pylist()
            return found
        rows: list[Event] = self.lab.arrow("out").select(names).to_pylist()
        return rows

    def pipeline(self) -> Pipeline:
        return read_pipeline(self.lab.file, self.lab.environment(100))

    def iceberg(self) -> Any:
        table = TablePlace(self.pipeline().sinks["out"]).find()
        assert table is not None
        return table

    def results(self) -> list[Event]:
        """The windows of a topic. Of changes the last one of each key: a window has more records
        with each of them, or one would be there twice."""
        found: dict[bytes, Event] = {}
        for key, value in self.read():
            row = {**json.loads(key), **json.loads(value)}
            before = found.get(key)
            assert before is None or self.cell.mode == "update", f"{row} is there twice"
            assert before is None or row["records"] > before["records"], f"{row} after {before}"
            found[key] = row
        return list(found.values())

    def once(self, rows: list[Event]) -> list[Event]:
        """With at least once, a batch whose commit was not seen may be there again."""
        if self.cell.mode == "topic":
            return rows
        counts = Counter(map(_plain, rows))
        assert max(counts.values()) <= 2
        return [dict(row) for row in counts]

    def read(self) -> list[tuple[bytes, bytes]]:
        """The sink's topic by librdkafka, what is committed."""
        topic = f"{self.lab.topic}-out"
        config = {
            "bootstrap.servers": self.lab.bootstrap, "group.id": topic,
            "isolation.level": "read_committed", "enable.partition.eof": True,
        }  # fmt: skip
        consumer, found, open_ones = Consumer(config), [], {0, 1}
        consumer.assign([Assigned(topic, p, OFFSET_BEGINNING) for p in open_ones])
        try:
            while open_ones:
                message = consumer.poll(30)
                assert message is not None, "no answer"
                if message.error():
                    open_ones.discard(message.partition())
                else:
                    found.append((message.key(), message.value()))
        finally:
            consumer.close()
        return found

    def sparks(self, model: Model) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        spark = self.lab.spark
        if self.cell.mode == "iceberg":
            paths = [each.file.file_path for each in self.iceberg().scan().plan_files()]
            return spark.read.parquet(*paths).select(*_names(model))
        if self.cell.mode not in TOPICS:
            table = spark.read.format("delta").load(self.lab.table("out"))
            return table.select(*_names(model))
        read = spark.read.format("josefine").option("bootstrapServers", self.lab.bootstrap)
        read = read.option("subscribe", f"{self.lab.topic}-out")
        records = read.option("kafka.isolation.level", "read_committed").load()
        if self.cell.mode in STATE_TOPICS:
            return _sparks_results(records)
        value = F.from_json(F.col("value").cast("string"), "k STRING, v INT")
        rows = records.select(F.col("key").cast("string").cast("int").alias("id"), value.alias("e"))
        rows = rows.select("id", "e.*")
        return rows if self.cell.mode == "topic" else rows.distinct()


def _sparks_results(records: Any) -> Any:
    """The last record of each key, in columns."""
    from pyspark.sql import functions as F  # noqa: N812

    last = records.groupBy("key").agg(F.max_by("value", "offset").alias("value"))
    key = F.from_json(F.col("key").cast("string"), "begin BIGINT, k STRING").alias("key")
    value = F.from_json(F.col("value").cast("string"), "records BIGINT, v_sum BIGINT")
    return last.select(key, value.alias("value")).select("key.*", "value.*")


def _names(model: Model) -> list[str]:
    return [each.split()[0] for each in model.columns.split(", ")]


def _plain(row: Event) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(row.items()))


AT_ONCE = 2
"""Sinks that go on side by side: they mostly wait for each other's turns of Python and JVM."""
DIES_IN_PLACE = ("fail_write", "mid_loss:2")
"""A death of this process, now or before the kill: nobody else may run beside it."""


def verb_of(place: str) -> str:
    """What the driver does that dies there."""
    if place.startswith("mid_replay"):
        return "replay"
    return "trust" if place == "after_set_aside" else "run"


def killed_together(trials: list[Trial], place: str) -> None:
    """One driver, which dies when all of them are there."""
    folders = [str(each.lab.directory) for each in trials]
    bootstrap = trials[0].lab.bootstrap
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.cells_driver", place, verb_of(place), bootstrap,
         *folders],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, cwd=trials[0].lab.directory, text=True,
        start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    code, stderr = trials[0].lab.finish(process, timeout_s=900)
    assert code == KILLED, f"{place}: exit {code}\n{stderr[-6000:]}"


def trial_of(lab: Lab, number: int, cell: Cell) -> Trial:
    """With a folder and a topic of its own."""
    folder = lab.directory / f"{number}"
    folder.mkdir()
    topic = f"{lab.topic}-{number}"
    lab.client.create_topics([NewTopic(topic, 2)])
    trial = Trial(Lab(folder, lab.client, lab.bootstrap, topic, lab.spark.newSession()), cell)
    trial.begin()
    return trial


def outlives(trial: Trial, checkpoints: Sequence[str]) -> dict[str, str]:
    """What comes of a death with each of these fates of the checkpoint; what is wrong of it."""
    lab, wrong = trial.lab, {}
    trial.send(41)
    left = lab.directory.with_name(f"{lab.directory.name}-left")
    shutil.copytree(lab.directory, left)
    for checkpoint in checkpoints:
        trial.cell = trial.cell._replace(checkpoint=checkpoint)
        try:
            trial.goes_on()
            trial.check()
        except (AssertionError, Exception) as error:
            wrong[str(trial.cell)] = f"{type(error).__name__}: {error}"
        shutil.rmtree(lab.directory)
        shutil.copytree(left, lab.directory)
        # Its tables went back, which Delta in this process need not notice.
        lab.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    return wrong


Fate = tuple[Cell, Sequence[str]]


def _together(modes: Sequence[str], place: str) -> list[Fate]:
    """A topic cannot be put back to what a death has left: it dies for each fate of its own."""
    found: list[Fate] = []
    for cell in POSSIBLE:
        if cell.place != place or cell.mode not in modes:
            continue
        if cell.mode in TOPICS:
            found.append((cell, [cell.checkpoint]))
        elif cell.checkpoint == CHECKPOINTS[0]:
            found.append((cell, CHECKPOINTS))
    return found


LIVES = [
    pytest.param(place, fates, id=f"{modes[0]}-{place.replace(':', '')}")
    for place in PLACES
    for modes in TOGETHER
    if (fates := _together(modes, place))
]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "fates"), LIVES)
def test_a_process_that_is_killed_leaves_its_sinks_as_the_model_says(lab, place, fates):
    """Checklist rows 88 and 89. `fail_write` kills no driver but its workers."""
    trials = [trial_of(lab, number, cell) for number, (cell, _) in enumerate(fates)]
    in_place = place in DIES_IN_PLACE
    with ThreadPoolExecutor(1 if in_place else AT_ONCE) as pool:
        for done in [pool.submit(each.nears) for each in trials]:
            done.result()
    if place == "fail_write":
        for each in trials:
            each.dies(place)
    else:
        killed_together(trials, place)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        several = [checkpoints for _, checkpoints in fates]
        found = list(pool.map(outlives, trials, several))

    assert {cell: why for each in found for cell, why in each.items()} == {}


EVERY_DAY = (
    Cell("append", "mid_direct:2", "kept"),
    Cell("merge", "mid_commit:1", "deleted"),
    Cell("upsert", "mid_commit:2", "deleted"),
    Cell("cdc", "before_commit", "deleted"),
    Cell("deduplicate", "mid_loss:3", "kept"),
    *(
        pytest.param(Cell(*each), marks=pytest.mark.slow, id=str(Cell(*each)))
        for each in (
            ("state_topic", "before_commit", "kept"),
            ("state_topic", "mid_write", "deleted"),
            ("update", "mid_commit:2", "kept"),
            ("update", "before_commit", "deleted"),
        )
    ),
)
"""The steps of a batch, and what retention took. Versions, and rows of a topic, of a state or of an
Iceberg table, die every day in tests of their own."""


@pytest.mark.long_proof(share=3, among="runs that die")
@pytest.mark.parametrize("cell", EVERY_DAY, ids=str)
def test_a_run_that_dies_in_some_cells_leaves_its_sink_as_the_model_says(lab, cell):
    """Checklist rows 88 and 89. Died in place: see `test_kill.py`."""
    trial = trial_of(lab, 0, cell)
    trial.nears()
    trial.dies(cell.place)

    assert outlives(trial, [cell.checkpoint]) == {}
