"""One line per write, with the counts of all tasks; its failure fails no write."""

from __future__ import annotations

import json

import pytest

from josefine_spark.base.errors import OptionError
from josefine_spark.options.options import Connection, SinkOptions
from josefine_spark.write.delivery import DeliveryCounts

module = pytest.importorskip("josefine_spark.write.delivery_log")
from josefine_spark.write.delivery_log import (  # noqa: E402
    TaskWritten,
    check_delivery_log,
    log_delivery,
)


def written(**records):
    counts = DeliveryCounts()
    for topic, number in records.items():
        counts.of(topic).acknowledged(number, 10 * number)
    return TaskWritten(counts)


def test_the_counts_of_all_tasks_are_one_line_in_the_file_and_a_lost_task_counts_nothing(tmp_path):
    file = tmp_path / "log"

    log_delivery([written(a=2, b=1), None, written(a=3)], 7, str(file))
    log_delivery([written(a=1)], None, str(file))

    first, second = (json.loads(line) for line in file.read_text().splitlines())
    assert {topic: each["records"] for topic, each in first["topics"].items()} == {"a": 5, "b": 1}
    assert second["topics"]["a"]["records"] == 1
    assert 7 in first.values()


def test_a_file_that_cannot_be_written_is_refused_before_the_write(tmp_path):
    def options(file):
        return SinkOptions(connection=Connection(bootstrap="b:1"), delivery_log=file)

    check_delivery_log(options(None))
    check_delivery_log(options(str(tmp_path / "log")))
    with pytest.raises(OptionError, match=r"^deliveryLog: .*/none/log: No such file or directory"):
        check_delivery_log(options(str(tmp_path / "none" / "log")))


def test_after_the_write_it_is_a_warning(tmp_path, caplog):
    log_delivery([written(a=1)], 7, str(tmp_path / "none" / "log"))

    assert "No such file or directory" in caplog.text
