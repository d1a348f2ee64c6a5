"""Each pipeline that ships, over a broker: the records of its own first test, and what that
expects. (The join of streams: test_joins.py.)"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from pipelines.config.validate import read_pipeline
from pipelines.dead_letters.replay import replays
from pipelines.run.run import run_pipeline
from tests.spark.pipelines.conftest import NOW_MS, Quiet
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

SHIPPED = ("flights", "positions", "cdc", "big_orders", "currencies", "readings")


class World:
    """A broker, a lake and one shipped pipeline."""

    def __init__(self, spark, broker: BrokerProcess, folder: Path, name: str) -> None:
        self.spark, self.broker, self.folder = spark, broker, folder
        self.file = Path("conf/pipelines") / f"{name}.yaml"

    def read(self):
        lake = str(self.folder)
        environment = {"LAKE": lake, "DEMO_DIR": lake, "BOOTSTRAP": self.broker.bootstrap}
        pipeline = read_pipeline(self.file, environment)
        return dataclasses.replace(pipeline, every_ms=None)

    def send(self) -> None:
        """The records of the file's first test, as of today."""
        pipeline = self.read()
        ((_, given),) = pipeline.cases[0].given.items()
        made = {each.topic for each in given}
        made |= {sink.topic.topic for sink in pipeline.sinks.values() if sink.topic}
        records = [Record(each.key, each.value, (), NOW_MS + each.offset) for each in given]
        with BlockingClient(self.broker.bootstrap) as client:
            client.create_topics([NewTopic(name, 1) for name in sorted(made)])
            client.produce({TopicPartition(given[0].topic, 0): build_batch(records)})

    def run(self) -> None:
        run_pipeline(self.spark, self.read(), Quiet())

    def rows(self, path: str) -> int:
        return int(self.spark.read.format("delta").load(path).count())

    def topic_rows(self, topic: str) -> int:
        options = {"kafka.bootstrap.servers": self.broker.bootstrap, "subscribe": topic}
        frame = self.spark.read.format("josefine").options(**options)
        return int(frame.option("startingOffsets", "earliest").load().count())


@pytest.fixture
def shipped_world(spark, tmp_path, request):
    with BrokerProcess(tmp_path / "broker") as broker:
        yield World(spark, broker, tmp_path / "lake", request.param)


@pytest.mark.parametrize("shipped_world", SHIPPED, indirect=True)
def test_a_shipped_pipeline_makes_of_topics_what_its_test_expects(shipped_world):
    pipeline = shipped_world.read()
    shipped_world.send()

    shipped_world.run()
    shipped_world.run()

    looked = 0
    for each in pipeline.cases[0].expected:
        many = each.count if each.rows is None else len(each.rows)
        sink = pipeline.sinks.get(each.node)
        if sink is not None:
            found = (
                shipped_world.topic_rows(sink.topic.topic)
                if sink.topic
                else shipped_world.rows(sink.path)
            )
        elif each.node == "dead_letter":
            found = shipped_world.rows(pipeline.dead_letters)
        else:
            continue
        looked += 1
        assert (each.node, found) == (each.node, many)
    assert looked >= 1


@pytest.mark.parametrize("shipped_world", ["currencies"], indirect=True)
def test_letters_of_the_shipped_pipeline_come_back_once_when_its_check_is_mended(shipped_world):
    shipped_world.send()
    shipped_world.run()
    mended = shipped_world.folder / "currencies.yaml"
    text = shipped_world.file.read_text(encoding="utf-8")
    assert "('EUR', 'USD')" in text
    mended.write_text(text.replace("('EUR', 'USD')", "('EUR', 'USD', 'CHF')"), encoding="utf-8")
    shipped_world.file = mended

    for _ in range(2):
        replays(shipped_world.spark, shipped_world.read(), (), lambda replay: replay.run())
    shipped_world.run()

    pipeline = shipped_world.read()
    assert shipped_world.rows(pipeline.sinks["invoices"].path) == 4
    owed = shipped_world.spark.read.format("delta").load(pipeline.sinks["owed"].path).collect()
    assert {row.currency: row.invoices for row in owed} == {"EUR": 2, "USD": 1, "CHF": 1}
