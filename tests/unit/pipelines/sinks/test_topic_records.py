"""A batch's rows are written with the record that makes them count, and their number is known."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from josefine_spark.write.state import Batch
from pipelines.sinks.topic_records import RowWriter
from tests.unit.pipelines.sinks.test_topic import sink

pytest.importorskip("pyspark")
BATCH = Batch(query_id="q", batch_id=4, fingerprint="fp", note="note")


class Rows:
    """A frame of Spark with the writer that our connector would be."""

    sparkSession = None  # noqa: N815

    def __init__(self, *topics):
        self.topics, self.said = topics, {}
        self.write = self

    def format(self, name):
        self.said["format"] = name
        return self

    def mode(self, name):
        return self

    def options(self, **options):
        self.said |= options
        return self

    def save(self):
        with open(self.said["deliveryLog"], "w", encoding="utf-8") as file:
            for topics in self.topics:
                file.write(json.dumps({"topics": topics}) + "\n")


def test_the_records_of_all_tasks_are_counted_for_this_topic():
    rows = Rows({"out": {"records": 3}}, {}, {"out": {"records": 4}, "other": {"records": 9}})

    assert RowWriter(sink().topic)(rows, "id", BATCH) == 7
    assert RowWriter(sink().topic)(Rows(), "id", BATCH) == 0


def test_exactly_once_the_rows_are_written_under_the_batch_that_was_planned():
    rows = Rows()

    RowWriter(sink().topic)(rows, "orders.lake", BATCH)

    assert rows.said["format"] == "josefine"
    assert (rows.said["topic"], rows.said["bootstrapServers"]) == ("out", "localhost:9092")
    assert (rows.said["sinkId"], rows.said["batchId"]) == ("orders.lake", "4")
    assert (rows.said["batchFingerprint"], rows.said["batchNote"]) == ("fp", "note")


def test_at_least_once_the_rows_name_no_batch():
    topic = sink().topic
    assert topic is not None
    rows = Rows()

    RowWriter(replace(topic, exactly_once=False))(rows, "orders.lake", BATCH)

    assert not {"delivery", "sinkId", "batchId"} & rows.said.keys()
