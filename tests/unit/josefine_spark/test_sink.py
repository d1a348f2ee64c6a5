"""The at-least-once writers: refused on the driver, and only the delivery log at the end."""

from __future__ import annotations

import json
import pickle

import pytest

from josefine_spark.base.errors import OptionError
from josefine_spark.options.options import Connection, SinkOptions

module = pytest.importorskip("josefine_spark.sink")
from josefine_spark.sink import JosefineStreamWriter, JosefineWriter  # noqa: E402
from tests.unit.josefine_spark.write.test_delivery_log import written  # noqa: E402

types = pytest.importorskip("pyspark.sql.types")
SCHEMA = types.StructType().add("value", types.StringType())


def options(file=None):
    return SinkOptions(connection=Connection(bootstrap="b:1"), topic="t", delivery_log=file)


@pytest.mark.parametrize("writer", [JosefineWriter, JosefineStreamWriter])
def test_a_writer_refuses_its_columns_and_its_log_where_it_is_made(writer, tmp_path):
    with pytest.raises(OptionError, match="a column named value is needed"):
        writer(options(), types.StructType())
    with pytest.raises(OptionError, match="deliveryLog: "):
        writer(options(str(tmp_path / "none" / "log")), SCHEMA)


def test_a_writer_is_sent_to_its_tasks():
    assert pickle.loads(pickle.dumps(JosefineWriter(options(), SCHEMA)))._options == options()


def test_a_commit_logs_what_was_delivered_and_an_abort_takes_nothing_back(tmp_path):
    file = tmp_path / "log"
    stream = JosefineStreamWriter(options(str(file)), SCHEMA)
    batch = JosefineWriter(options(str(file)), SCHEMA)

    stream.commit([written(t=2)], 4)
    batch.commit([written(t=3)])
    stream.abort([written(t=9)], 5)
    batch.abort([written(t=9)])

    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["topics"]["t"]["records"] for line in lines] == [2, 3]
