"""`delivery=exactly_once` with a real broker and real Spark: each row once under read_committed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from josefine_broker.client.transaction_admin import open_transactions
from tests.spark.connector.conftest import Stream, Topics, run_to_the_end
from tests.spark.connector.test_stream_read import forget_last_commit
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

Read = Callable[..., DataFrame]
ONCE = {"delivery": "exactly_once"}


def write(frame: DataFrame, topics: Topics, **options: Any) -> None:
    writer = frame.write.format("josefine").option("kafka.bootstrap.servers", topics.bootstrap)
    writer.options(**ONCE, **options).mode("append").save()


def copy(stream: Stream, source: str, target: str, **options: Any) -> None:
    reading = {"maxOffsetsPerTrigger": options.pop("limit", 7)}
    writer = stream.frame(source, **reading).drop("partition").writeStream.format("josefine")
    writer = writer.options(**{"kafka.bootstrap.servers": stream.bootstrap, "topic": target})
    writer = writer.options(**ONCE, **options).trigger(availableNow=True)
    run_to_the_end(writer.option("checkpointLocation", str(stream.checkpoint)).start)


def committed(read: Read, topic: str) -> list[int]:
    rows = read(topic, **{"kafka.isolation.level": "read_committed"}).collect()
    return sorted(int(row.value) for row in rows)


def left_open(topics: Topics, topic: str) -> list[Any]:
    return topics.client.run(lambda s, t, d: open_transactions(s, [topic], t, d))


def test_a_batch_write_is_one_decision(spark: SparkSession, topics: Topics, read: Read) -> None:
    """Checklist row 88."""
    topic = topics.create(partitions=2)

    write(spark.range(0, 3_000, numPartitions=3).selectExpr("CAST(id AS STRING) AS value"),
          topics, topic=topic)  # fmt: skip

    assert committed(read, topic) == list(range(3_000))
    assert left_open(topics, topic) == []


def test_a_batch_write_of_which_one_task_fails_leaves_nothing_to_see(
    spark: SparkSession, topics: Topics, read: Read
) -> None:
    topic = topics.create()
    rows = spark.range(0, 400, numPartitions=2).selectExpr(
        "CAST(IF(id = 399, raise_error('the last row'), id) AS STRING) AS value"
    )

    with pytest.raises(Exception, match="the last row"):
        write(rows, topics, topic=topic, **{"kafka.transaction.timeout.ms": "10000"})

    # A task that Spark ends too late for our looks leaves its transaction to its timeout.
    wait_until(lambda: left_open(topics, topic) == [], 120, "every transaction to end")
    assert committed(read, topic) == []


def test_a_numbered_batch_write_that_is_done_again_is_not_written_again(
    spark: SparkSession, topics: Topics, read: Read
) -> None:
    topic = topics.create()
    numbered = {"topic": topic, "sinkId": f"numbered-{topic}"}

    for number, first in ((3, 0), (3, 0), (4, 2)):
        rows = spark.range(first, first + 2).selectExpr("CAST(id AS STRING) AS value")
        write(rows, topics, batchId=number, batchFingerprint=f"f{number}", **numbered)

    assert committed(read, topic) == [0, 1, 2, 3]


def test_topic_to_topic_is_exactly_once_also_when_a_batch_runs_again(
    topics: Topics, stream: Stream, read: Read
) -> None:
    """Checklist row 88: a batch whose commit Spark has forgotten is not written again."""
    source, target = topics.create(partitions=2), topics.create(partitions=2)
    topics.fill(source, 0, 20)
    copy(stream, source, target)
    forget_last_commit(stream.checkpoint)
    topics.fill(source, 1, 10, first=20)

    copy(stream, source, target)

    assert committed(read, target) == list(range(30))
    assert left_open(topics, target) == []


PLACES = {
    "before the driver is known": "plan:1:before",
    "it is taken over, nothing is planned": "plan:2:after",
    "the generation is written": "plan:3:after@2",
    "every task has written": "commit:0:before",
    "the decision is not written": "commit:2:before@2",
    "the decision is written": "commit:2:after",
    "the transactions are ended": "commit:3:after",
    "it is settled, Spark does not know": "commit:5:after@2",
}
LIVES = [
    pytest.param(("the decision is written",), id="decided"),
    pytest.param(tuple(PLACES), id="everywhere"),
]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("places", LIVES)
def test_a_driver_killed_at_the_protocols_arrows_loses_and_repeats_nothing(
    topics: Topics, stream: Stream, read: Read, tmp_path: Path, places: tuple[str, ...]
) -> None:
    """Checklist row 88. Each killed driver is a process of its own, and goes on from what the one
    before it left; the last one is the tests' own."""
    source, target = topics.create(partitions=2), topics.create(partitions=2)
    for number, place in enumerate(places):
        for part in range(2):
            topics.fill(source, part, 15, first=(2 * number + part) * 15)
        arguments = [topics.bootstrap, source, target, str(stream.checkpoint)]
        killed = subprocess.run(
            [sys.executable, "-m", "tests.support.mortal_sink", *arguments],
            env={
                **os.environ,
                "JOSEFINE_DIE": PLACES[place],
                "JOSEFINE_DIE_HITS": str(tmp_path / f"hits-{number}"),
            },
            start_new_session=True,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, f"{place}: {killed.stderr[-2000:]}"
    copy(stream, source, target, sinkId=target)

    assert committed(read, target) == list(range(len(places) * 30))
    assert left_open(topics, target) == []


def test_a_deleted_checkpoint_under_the_same_name_is_a_stop(
    topics: Topics, stream: Stream, read: Read, tmp_path: Path
) -> None:
    source, target = topics.create(), topics.create()
    topics.fill(source, 0, 5)
    copy(stream, source, target, sinkId=target)
    other = replace(stream, checkpoint=tmp_path / "another")

    with pytest.raises(Exception, match=r"was the checkpoint deleted.*josefine sinks forget"):
        copy(other, source, target, sinkId=target)

    assert committed(read, target) == list(range(5))
