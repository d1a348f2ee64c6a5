"""A task's read without Spark: prefetching, broker failures, ranges that are gone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.records.builder import Record
from josefine_spark.base.errors import DataLossError, ReadError
from josefine_spark.options.options import Connection, ReadOptions
from josefine_spark.read import task_reader
from josefine_spark.read.admission import OffsetRange
from josefine_spark.read.task_reader import read_range
from tests.spark.connector.conftest import Topics
from tests.support.broker import BrokerProcess

SMALL_FETCH = 20_000


def options(bootstrap: str, **more: Any) -> ReadOptions:
    return ReadOptions(connection=Connection(bootstrap=bootstrap), **more)


def whole(topics: Topics, topic: str, start: int, end: int) -> OffsetRange:
    topic_id = str(topics.client.metadata([topic]).topic_id(topic))
    return OffsetRange(partition=TopicPartition(topic, 0), topic_id=topic_id, start=start, end=end)


def offsets(batches: Any) -> list[int]:
    table = pa.Table.from_batches(list(batches))
    found: list[int] = table.column("offset").to_pylist()
    return found


def fill_with_kilobytes(topics: Topics, topic: str, count: int) -> None:
    for first in range(0, count, 10):
        records = [Record(b"k", b"%1000d" % n, (), n) for n in range(first, first + 10)]
        topics.append(topic, 0, records)


def in_small_fetches(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, count: int
) -> tuple[str, ReadOptions]:
    """A topic with so many records, and options that take many fetches to read them."""
    monkeypatch.setattr(task_reader, "FIRST_BYTES_MIN", SMALL_FETCH)
    topic = topics.create()
    fill_with_kilobytes(topics, topic, count)
    return topic, options(topics.bootstrap, fetch_bytes=SMALL_FETCH)


def test_a_range_is_read_in_several_fetches_and_nothing_outside_it(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, given = in_small_fetches(topics, monkeypatch, 300)

    batches = list(read_range(given, whole(topics, topic, 7, 293)))

    assert offsets(batches) == list(range(7, 293))
    assert len(batches) > 10


def test_kill_of_the_broker_in_the_middle_of_a_range_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checklist row 87."""
    monkeypatch.setattr(task_reader, "FIRST_BYTES_MIN", SMALL_FETCH)
    with BrokerProcess(tmp_path) as broker, BlockingClient(broker.bootstrap) as client:
        topics = Topics(client, broker.bootstrap)
        topic = topics.create()
        fill_with_kilobytes(topics, topic, 300)
        given = options(broker.bootstrap, fetch_bytes=SMALL_FETCH)
        batches = read_range(given, whole(topics, topic, 0, 300))
        found = offsets([next(batches)])

        broker.kill()
        broker.start()
        found += offsets(batches)

    assert found == list(range(300))


def test_a_reader_that_is_given_up_leaves_no_thread_behind(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, given = in_small_fetches(topics, monkeypatch, 300)
    wanted = whole(topics, topic, 0, 300)

    def fetching() -> bool:
        """Spark's threads come and go meanwhile."""
        return f"fetch {wanted}" in {thread.name for thread in threading.enumerate()}

    batches = read_range(given, wanted)
    next(batches)
    assert fetching()
    batches.close()

    assert not fetching()


def test_a_range_that_was_deleted_before_the_task_ran_is_named_exactly(topics: Topics) -> None:
    """Checklist row 90."""
    topic = topics.create()
    topics.fill(topic, 0, 20)
    wanted = whole(topics, topic, 2, 20)
    topics.client.delete_records({TopicPartition(topic, 0): 8})

    with pytest.raises(DataLossError, match=rf"{topic}-0 offsets \[2, 8\)"):
        list(read_range(options(topics.bootstrap), wanted))

    lenient = options(topics.bootstrap, fail_on_data_loss=False)
    assert offsets(read_range(lenient, wanted)) == list(range(8, 20))


def test_what_a_task_could_not_read_is_recorded_once(topics: Topics, tmp_path: Path) -> None:
    """Checklist row 90. Deleted between planning and reading; the task runs twice."""
    topic = topics.create()
    topics.fill(topic, 0, 20)
    wanted = whole(topics, topic, 2, 20)
    topics.client.delete_records({TopicPartition(topic, 0): 8})
    path = str(tmp_path / "losses")
    given = options(topics.bootstrap, fail_on_data_loss=False, loss_table=path)

    for _ in range(2):
        assert offsets(read_range(given, wanted)) == list(range(8, 20))

    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    assert [(r["topic"], r["topic_id"], r["start_offset"], r["end_offset"]) for r in rows] == [
        (topic, wanted.topic_id, 2, 8)
    ]


def test_a_read_that_is_ended_early_records_no_loss(topics: Topics, tmp_path: Path) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 20)
    wanted = whole(topics, topic, 2, 20)
    topics.client.delete_records({TopicPartition(topic, 0): 8})
    path = tmp_path / "losses"
    given = options(topics.bootstrap, fail_on_data_loss=False, loss_table=str(path))

    batches = read_range(given, wanted)
    next(batches)
    batches.close()

    assert not path.exists()


def test_a_topic_that_was_deleted_before_the_task_ran_is_data_loss(topics: Topics) -> None:
    """Checklist row 90."""
    topic = topics.create()
    topics.fill(topic, 0, 20)
    wanted = whole(topics, topic, 0, 20)
    topics.delete(topic)

    with pytest.raises(DataLossError, match="the partition does not exist any more"):
        list(read_range(options(topics.bootstrap), wanted))


def test_another_topic_of_the_same_name_is_data_loss(topics: Topics) -> None:
    """Checklist row 90."""
    topic = topics.create()
    topics.fill(topic, 0, 20)
    wanted = OffsetRange(
        partition=TopicPartition(topic, 0), topic_id="of the old topic", start=0, end=20
    )

    with pytest.raises(DataLossError, match="deleted and created again"):
        list(read_range(options(topics.bootstrap), wanted))

    lenient = options(topics.bootstrap, fail_on_data_loss=False)
    assert list(read_range(lenient, wanted)) == []


def test_a_topic_created_again_under_a_task_gives_it_no_record(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checklist row 90. The new topic has records at the same offsets: they are others."""
    topic, given = in_small_fetches(topics, monkeypatch, 500)
    batches = read_range(given, whole(topics, topic, 0, 500))
    seen = [next(batches)]

    topics.delete(topic)
    topics.create(name=topic)
    topics.append(topic, 0, [Record(b"k", b"new", (), 1)] * 500)
    with pytest.raises(DataLossError, match=r"\[\d+, 500\): the topic was deleted and created"):
        seen.extend(batches)

    assert b"new" not in pa.Table.from_batches(seen).column("value").to_pylist()


def test_records_that_never_come_are_an_error_after_the_poll_timeout(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 5)
    given = options(topics.bootstrap, poll_timeout_ms=200, fetch_wait_ms=50)

    with pytest.raises(DataLossError, match=rf"{topic}-0 offsets \[5, 9\): the log ends before"):
        list(read_range(given, whole(topics, topic, 0, 9)))


def test_a_broker_that_is_away_is_named(topics: Topics) -> None:
    given = options("127.0.0.1:9", poll_timeout_ms=1)
    wanted = OffsetRange(partition=TopicPartition("t", 0), topic_id="", start=0, end=9)

    with pytest.raises(ReadError, match=r"cannot read t-0 from offset 0: .*127\.0\.0\.1:9"):
        list(read_range(given, wanted))
