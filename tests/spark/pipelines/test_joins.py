"""Two streams joined: each pair is in the table once, and each row without one, whatever dies."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from pipelines.base.errors import ChainError, ConfigError, RunError
from pipelines.config.validate import read_pipeline
from pipelines.inspect.plan import plan
from pipelines.run.run import run_pipeline
from tests.spark.pipelines.conftest import Quiet
from tests.spark.pipelines.files_lab import FilesLab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PIPELINE = """\
version: 1
name: joining
spark: { checkpoint: "${LAB}/ck" }
sources:
  ordered:
    type: file
    path: "${LAB}/ordered"
    limit: { bytes: "${BYTES:-4000}" }
    decode: { value: { format: json, schema: "id INT, at TIMESTAMP", on_error: fail } }
  paid:
    type: file
    path: "${LAB}/paid"
    limit: { bytes: "${BYTES:-4000}" }
    decode: { value: { format: json, schema: "id INT, at TIMESTAMP", on_error: fail } }
transforms:
  orders: { inputs: [ordered], sql: "select value.id, value.at from ordered" }
  payments: { inputs: [paid], sql: "select value.id, value.at, offset from paid" }
  joined:
    inputs: [orders, payments]
    watermark: { orders: { column: at, delay: 30s }, payments: { column: at, delay: 30s } }
    sql: >
      select o.id, p.id is not null as is_paid from orders o left join payments p
      on p.id = o.id and p.at >= o.at and p.at <= o.at + interval 15 seconds
sinks:
  lake: { type: delta, inputs: [joined], path: "${LAB}/lake", mode: append }
trigger: { available_now: true }
"""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Lab(FilesLab):
    """Orders and payments, and which order is paid."""

    def __init__(self, spark, folder: Path) -> None:
        super().__init__(spark, folder, PIPELINE, ("ordered", "paid"))
        self.orders = 0

    def happen(self, source: str, *events: tuple[int, int]) -> None:
        """(id, seconds after the beginning)."""
        for number, second in events:
            at = (BEGIN + timedelta(seconds=second)).isoformat()
            self.add(source, json.dumps({"id": number, "at": at}))

    def live(self, life: int) -> None:
        """Four orders: two are paid now, one in the next life, one never."""
        first, now = life * 4, life * 20
        self.happen("ordered", *((first + n, now + 4 * n) for n in range(4)))
        self.happen("paid", (first, now + 5), (first + 2, now + 13))
        if life:
            self.happen("paid", (first - 3, now - 16 + 10))
        self.orders += 4

    def end(self) -> None:
        """An order and its payment so much later that all others are settled."""
        self.happen("ordered", (self.orders, 900))
        self.happen("paid", (self.orders, 900), (self.orders - 3, self.orders * 5 - 16 + 10))
        self.orders += 1

    def expected(self) -> list[tuple[int, bool]]:
        return [(n, n % 4 != 3) for n in range(self.orders)]

    def rows(self) -> list[tuple[int, bool]]:
        return sorted((row.id, row.is_paid) for row in self.collected())


@pytest.fixture
def lab(spark, tmp_path):
    return Lab(spark, tmp_path)


EVERY_DAY = ("mid_write",)
FAILPOINTS = (
    *("after_offsets@2", "before_commit@2", "mid_write@2", "mid_commit:2"),
    *("after_commit_before_log@2", *EVERY_DAY),
)


@pytest.mark.long_proof(share=3, among="states of pipelines")
@pytest.mark.parametrize(
    ("fails", "bytes_max"),
    [(EVERY_DAY, 4000), pytest.param(FAILPOINTS, 110, marks=pytest.mark.slow)],
)
def test_pairs_and_rows_without_one_are_there_once_whatever_dies(lab, fails, bytes_max):
    """A payment comes in a later life than its order; without the checkpoint there is no run."""
    lab.bytes = bytes_max
    for life, fail in enumerate(fails):
        lab.live(life)
        lab.die(fail)
    lab.end()

    lab.run()

    assert lab.rows() == lab.expected()
    lab.add("paid", "no payment")
    with pytest.raises(RunError, match=r"source `paid`: paid.jsonl-0 offset \d+: not JSON"):
        lab.run()
    shutil.rmtree(lab.folder / "ck")
    with pytest.raises(ChainError, match=r"its state is gone(.|\n)*Two ways out"):
        lab.run()


@pytest.mark.slow
def test_a_row_that_is_late_for_a_join_is_left_out_and_counted(lab):
    lab.live(0)
    lab.end()
    lab.run()
    lab.happen("ordered", (77, 1), (78, 901))

    assert lab.run().sinks["lake"].late == 1
    assert lab.rows() == lab.expected()


def test_plan_asks_spark_whether_the_join_would_run(lab):
    (planned,) = plan(lab.spark, lab.read())

    assert planned.source == "ordered, paid"
    assert [name for name, _ in planned.columns] == ["id", "is_paid"]


BOUNDS = " and p.at >= o.at and p.at <= o.at + interval 15 seconds"


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize(
    ("kind", "bound"),
    [
        ("join", ""),
        ("join", " and p.at >= o.at"),
        ("join", " and abs(unix_timestamp(p.at) - unix_timestamp(o.at)) < 15"),
        ("left join", " and p.at <= o.at + interval 15 seconds"),
    ],
)
def test_a_join_whose_rows_would_wait_for_ever_is_refused_by_plan_and_run(lab, kind, bound):
    """Spark itself takes them: of an outer one it looks at the side that it keeps alone."""
    assert BOUNDS in PIPELINE
    lab.write(PIPELINE.replace(BOUNDS, bound).replace("left join", kind))

    for does in (lambda: plan(lab.spark, lab.read()), lab.run):
        with pytest.raises(ConfigError, match=r"all would wait for ever: expected both bounds"):
            does()


def test_a_join_and_windows_in_one_transform_are_refused(lab):
    """Spark would keep both states: one commit names one."""
    group = " group by window(o.at, '1 minute')"
    sql = "select window.start as minute, count(*) as n from orders o join payments p"
    lab.write(
        PIPELINE.replace(
            "select o.id, p.id is not null as is_paid from orders o left join payments p", sql
        ).replace(BOUNDS, BOUNDS + group)
    )

    with pytest.raises(ConfigError, match="Aggregate with Join has no state that is kept for it"):
        plan(lab.spark, lab.read())


def test_an_inner_join_with_both_bounds_is_taken(lab):
    lab.write(PIPELINE.replace("left join", "join"))

    assert plan(lab.spark, lab.read())


@pytest.mark.slow
def test_the_shipped_join_runs_over_two_topics(spark, pipe_broker, tmp_path):
    """A bad record is a letter with its place, and the join goes on."""
    environment = {"LAKE": str(tmp_path), "BOOTSTRAP": pipe_broker.bootstrap}
    pipeline = read_pipeline("conf/pipelines/paid_orders.yaml", environment)

    def at(minute: int) -> str:
        return (BEGIN + timedelta(minutes=minute)).isoformat()

    orders = [{"id": n, "customer": "Ada", "at": at(n)} for n in (*range(6), 90)]
    payments = [{"order": n, "amount": n, "at": at(n + 3)} for n in (4, 2, 0, 90)]
    with BlockingClient(pipe_broker.bootstrap) as client:
        client.create_topics([NewTopic("orders", 2), NewTopic("payments", 1)])

        def send(topic: str, partition: int, *events: dict) -> None:
            records = [Record(None, json.dumps(each).encode(), (), 0) for each in events]
            client.produce({TopicPartition(topic, partition): build_batch(records)})

        for partition in (0, 1):
            send("orders", partition, *orders[partition::2])
        send("payments", 0, *payments)
        run_pipeline(spark, pipeline, Quiet())
        send("payments", 0, {"order": "one"})
        run_pipeline(spark, pipeline, Quiet())

    rows = spark.read.format("delta").load(f"{tmp_path}/paid_orders").collect()
    found = sorted((row.id, row.amount) for row in rows if row.amount is not None)
    assert found == [(0, 0), (2, 2), (4, 4), (90, 90)]
    assert sorted(row.id for row in rows if row.amount is None) == [1, 3, 5]
    (letter,) = spark.read.format("delta").load(f"{tmp_path}/paid_orders_dlq").collect()
    assert (letter.source, letter.topic, letter.offset) == ("paid", "payments", 4)
