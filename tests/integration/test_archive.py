"""Archived topics with a real broker and real archives: retention waits, `josefine archive`."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Assigned
from deltalake import DeltaTable

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import EARLIEST, BlockingClient, BlockingProducer, NewTopic
from josefine_lake.archive.config import LAG_MS, parser
from josefine_lake.archive.once import run_once
from josefine_lake.archive.writer import archive_writer
from josefine_lake.writer.discovery import discover
from josefine_spark.source import JosefineDataSource
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.model.pipeline import Source
from pipelines.sources.josefine import JosefineKind, first_record_ms, options_of
from tests.integration.test_table_metrics import health, metric, metrics
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine, josefine_process
from tests.support.fixtures import broker_fixture
from tests.support.ports import free_ports
from tests.support.waiting import wait_until
from tests.unit.pipelines.config.test_validate import GOOD

WAIT_S = 60.0
FIRST_MS = 1_700_000_000_000

broker = broker_fixture(
    group__initial_rebalance_delay_ms=0,
    group__min_session_timeout_ms=500,
    log__retention_check_interval_ms=200,
)


def made(broker: Any, topic: str, lake: Path, partitions: int = 1, **more: str) -> None:
    """An archived topic of which brokers keep only the newest segment."""
    configs = {
        "remote.storage.enable": "true",
        "josefine.archive.location": str(lake),
        "retention.ms": "-1",
        "local.retention.bytes": "1",
        "segment.bytes": "1024",
        **{name.replace("__", "."): each for name, each in more.items()},
    }
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic(name=topic, partitions=partitions, configs=configs)])
        client.partition_count(topic)


def sent(broker: Any, topic: str, count: int, partition: int = 0) -> None:
    """Records of 100 bytes."""
    with BlockingClient(broker.bootstrap) as client:
        producer = BlockingProducer(client)
        for n in range(count):
            producer.send(topic, b"k%d" % n, b"v" * 100, partition=partition)
            producer.flush()


def local_start(broker: Any, topic: str, partition: int = 0) -> int:
    tp = TopicPartition(topic, partition)
    with BlockingClient(broker.bootstrap) as client:
        return client.list_offsets({tp: EARLIEST})[tp].offset


def archived(lake: Path) -> list[int]:
    return sorted(DeltaTable(str(lake)).to_pyarrow_table().column("offset").to_pylist())


def waits(broker: Any) -> str:
    """Why retention waits, as /health says."""
    return str(json.loads(broker.get("/health")[1])["checks"]["archives"]["detail"])


@contextmanager
def writer(broker: Any) -> Iterator[subprocess.Popen[str]]:
    process = josefine_process(broker.bootstrap, "archive", "run", "--target-lag", "100ms")
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_segments_go_once_the_archive_has_them_and_never_after_it_was_dropped(
    broker: Any, tmp_path: Path
) -> None:
    lake = tmp_path / "kept"
    made(broker, "kept", lake)
    sent(broker, "kept", 40)
    wait_until(lambda: "kept-0" in waits(broker), WAIT_S, "retention waits")
    assert "has nothing of this partition yet" in waits(broker)
    assert local_start(broker, "kept") == 0

    with writer(broker) as process:
        assert process.stderr is not None
        at = process.stderr.readline().rpartition("http://")[2].removesuffix("/metrics\n")
        wait_until(lambda: local_start(broker, "kept") > 0, WAIT_S, "segments deleted")
        start = local_start(broker, "kept")
        shown = metrics(at)
        assert shown['josefine_archive_end_offset{partition="0",topic="kept"}'] == 40
        assert metric(at, "archive_records_total", "kept") == 40
        assert metric(at, "archive_lag_seconds", "kept") == 0
        assert time.time() - (metric(at, "archive_look_timestamp_seconds", "kept") or 0) < 60
        assert archived(lake)[:start] == list(range(start))

        shutil.rmtree(lake)
        wait_until(lambda: "dropped" in waits_after_more(broker), WAIT_S, "the drop is noticed")
        wait_until(
            lambda: metric(at, "archive_stopped", "kept") == 1, WAIT_S, "the metric of the stop"
        )
        assert health(at)[0] == 503
        start = local_start(broker, "kept")
        sent(broker, "kept", 40)
        wait_until(lambda: "dropped" in waits(broker), WAIT_S, "retention waits")

    assert local_start(broker, "kept") == start
    state = josefine(broker.bootstrap, "archive", "status", "--topic", "kept")
    assert "restored or created again" in state.out


def waits_after_more(broker: Any) -> str:
    """Something is due again, so the reason is shown."""
    sent(broker, "kept", 1)
    return waits(broker)


@contextmanager
def reader(broker: Any, port: int) -> Iterator[subprocess.Popen[str]]:
    """The archive reader, once it serves."""
    process = josefine_process(broker.bootstrap, "archive", "serve", "--port", str(port))
    try:
        assert process.stdout is not None
        assert f":{port}" in process.stdout.readline()
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_any_kafka_client_reads_below_the_local_start(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (port,) = free_ports(1)
    lake = tmp_path / "deep"
    with BrokerProcess(
        tmp_path_factory.mktemp("reading"),
        group__initial_rebalance_delay_ms=0,
        group__min_session_timeout_ms=500,
        log__retention_check_interval_ms=200,
        log__archive_reader_port=port,
    ) as broker:
        made(broker, "deep", lake)
        count = produced(broker, "deep", 18)
        expected = consumed(broker, "deep", count)
        with writer(broker), reader(broker, port):
            wait_until(lambda: local_start_only(broker, "deep") > 12, WAIT_S, "segments deleted")
            assert consumed(broker, "deep", count) == expected
            checked = josefine(broker.bootstrap, "archive", "verify", "--topic", "deep", "--json")
            assert checked.code == 0, checked.err
            verified = json.loads(checked.out)
            assert (verified["records"], verified["wrong"]) == (count, "")
            assert 0 < verified["compared"] < count
            assert local_start(broker, "deep") == 0
            seam = local_start_only(broker, "deep")
            read = josefine(broker.bootstrap, "consume", "deep", "--from", "earliest")
            said = re.search(r"offsets 0 to (\d+) come from the archive, from (\d+) on", read.err)
            assert said, read.err
            assert seam <= int(said[1]) + 1 == int(said[2])
            assert tiered(broker, "deep") >= seam - 1
            for time_ms in (0, FIRST_MS, FIRST_MS + 1_500):
                first = next(each for each in expected if each[4][1] >= time_ms)
                assert by_time(broker, "deep", time_ms) == (first[0], first[4][1])


def local_start_only(broker: Any, topic: str) -> int:
    """Of the log, without the archive (ListOffsets -4)."""
    tp = TopicPartition(topic, 0)
    with BlockingClient(broker.bootstrap) as client:
        return client.list_offsets({tp: -4})[tp].offset


def tiered(broker: Any, topic: str) -> int:
    """The last archived offset that the broker knows of (ListOffsets -5)."""
    tp = TopicPartition(topic, 0)
    with BlockingClient(broker.bootstrap) as client:
        return client.list_offsets({tp: -5})[tp].offset


def by_time(broker: Any, topic: str, time_ms: int) -> tuple[int, int]:
    """(offset, timestamp) of the first record at or after a time."""
    tp = TopicPartition(topic, 0)
    with BlockingClient(broker.bootstrap) as client:
        listed = client.list_offsets({tp: time_ms})[tp]
    return listed.offset, listed.timestamp_ms


Consumed = list[tuple[int, bytes | None, bytes | None, Any, tuple[int, int]]]


def produced(broker: Any, topic: str, count: int) -> int:
    """The number of committed records out of `count`, of every shape: nulls, headers, codecs."""
    committed = 0
    for at, codec in enumerate(("none", "gzip", "zstd")):
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "compression.type": codec,
                "transactional.id": f"t{at}",
                "linger.ms": 0,
            }
        )
        producer.init_transactions(WAIT_S)
        for n in range(count // 3):
            producer.begin_transaction()
            headers = [("h", b"1"), ("h", None), ("", b"")] if n % 3 else None
            producer.produce(
                topic,
                value=None if n % 7 == 3 else b"v" * (200 + n),
                key=None if n % 4 == 1 else b"%d" % n,
                headers=headers,
                timestamp=FIRST_MS + n * 1_000 - at,
                partition=0,
            )
            if n % 5 == 4:
                producer.abort_transaction(WAIT_S)
            else:
                producer.commit_transaction(WAIT_S)
                committed += 1
    return committed


def shape(message: Any) -> tuple[int, bytes | None, bytes | None, Any, tuple[int, int]]:
    return (
        message.offset(), message.key(), message.value(), message.headers(), message.timestamp()
    )  # fmt: skip


def consumed(broker: Any, topic: str, count: int) -> Consumed:
    """The first records from offset 0 on, as librdkafka has them."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "readers",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([Assigned(topic, 0, 0)])
    found: Consumed = []
    try:

        def more() -> bool:
            for message in consumer.consume(100, 0.2):
                assert message.error() is None, message.error()
                found.append(shape(message))
            return len(found) >= count

        wait_until(more, WAIT_S, f"{count} records, found {len(found)}")
    finally:
        consumer.close()
    return found


@pytest.mark.long_proof(share=3, among="histories of stores")
@pytest.mark.parametrize("fail", ["before_files", "before_commit", "after_commit"])
def test_killed_writer_neither_loses_nor_doubles(broker: Any, tmp_path: Path, fail: str) -> None:
    topic, lake = fail.replace("_", "-"), tmp_path / fail
    made(broker, topic, lake, partitions=2)
    for partition in (0, 1):
        sent(broker, topic, 5, partition)
    words = ("archive", "run", "--topic", topic, "--once")

    with mock.patch.dict(os.environ, {"JOSEFINE_FAIL": fail}):
        killed = josefine_process(broker.bootstrap, *words)
    killed.communicate(timeout=WAIT_S)
    again = josefine(broker.bootstrap, *words)

    assert (killed.returncode, again.code) == (-signal.SIGKILL, 0), again.err
    assert archived(lake) == sorted([*range(5)] * 2)
    verified = josefine(broker.bootstrap, "archive", "verify", "--topic", topic)
    assert verified.out.count("5 records from offset 0 to 5, 5 of them also on brokers") == 2


def test_spark_reads_below_the_local_start_from_the_archives_files(
    broker: Any, tmp_path: Path
) -> None:
    """Without a reader on the broker's machine, and without a JVM: the source is Python."""
    lake = tmp_path / "files"
    made(broker, "files", lake)
    count = produced(broker, "files", 18)
    expected = consumed(broker, "files", count)
    with writer(broker):
        wait_until(lambda: local_start(broker, "files") > 12, WAIT_S, "segments deleted")

        assert by_spark(broker, "files", archive="auto") == expected
        local = by_spark(broker, "files")
        assert local == [each for each in expected if each[0] >= local[0][0]]
        assert 0 < len(local) < count
        since = FIRST_MS + 1_500
        first = next(each for each in expected if each[4][1] >= since)
        options = {"archive": "auto", "startingTimestamp": str(since)}
        assert by_spark(broker, "files", **options)[0] == first
        # A pipeline starts, and sees how far it is, by the same choice.
        ends = {"auto": 0, "broker": local[0][0], "off": local[0][0]}
        for archive, start in ends.items():
            source = pipeline_source(broker, "files", archive)
            topics = JosefineKind().look(source)
            assert topics.earliest == {FILES: start}
            at = JosefineKind().at_time(source, since, topics)[FILES]
            assert at == (first[0] if archive == "auto" else start)
            assert by_spark(broker, "files", **options_of(source))[0][0] == start
        oldest = first_record_ms(pipeline_source(broker, "files", "auto"), {FILES: 0})
        assert oldest == expected[0][4][1]


FILES = TopicPartition("files", 0)


def pipeline_source(broker: Any, topic: str, archive: str) -> Source:
    """The source of a pipeline file with this keyword."""
    text = GOOD.replace("topics: [orders]", f"topics: [{topic}]\n    archive: {archive}")
    found = validate(load(text, "f.yaml", {})).sources["raw"]
    return replace(found, bootstrap=broker.bootstrap, headers=True)


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_records_older_than_the_topics_retention_leave_the_archive(
    broker: Any, tmp_path: Path
) -> None:
    lake = tmp_path / "aged"
    made(broker, "aged", lake, retention__ms="86400000")
    old = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(30):
        old.produce("aged", value=b"v" * 100, timestamp=FIRST_MS, partition=0)
    assert old.flush(WAIT_S) == 0
    assert josefine(broker.bootstrap, "archive", "run", "--topic", "aged", "--once").code == 0
    sent(broker, "aged", 20)

    with writer(broker):
        wait_until(lambda: archived(lake) == [*range(30, 50)], WAIT_S, "old records deleted")
        wait_until(lambda: local_start(broker, "aged") >= 30, WAIT_S, "old segments deleted")

    assert by_spark(broker, "aged", archive="auto")[0][0] == 30
    verified = josefine(broker.bootstrap, "archive", "verify", "--topic", "aged")
    assert "20 records from offset 30 to 50" in verified.out, verified.err


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_records_beyond_the_topics_bytes_leave_the_archive(broker: Any, tmp_path: Path) -> None:
    lake = tmp_path / "sized"
    made(broker, "sized", lake, retention__bytes="1")
    with BlockingClient(broker.bootstrap) as client:
        archives = discover(client, ["sized"], parse=parser(LAG_MS)).tables
        for _ in range(2):  # a file each
            sent(broker, "sized", 20)
            (done,) = run_once(client, archives, {}, lambda: False, trust=False)
            assert (done.rows, done.stopped) == (20, "")
        writer = archive_writer(archives["sized"], client, {})
        expired = lambda: archived(lake) == [*range(20, 40)]  # noqa: E731 - a name
        deadline_s = time.monotonic() + WAIT_S
        writer.run(lambda: expired() or time.monotonic() > deadline_s)

    assert archived(lake) == [*range(20, 40)]


def by_spark(broker: Any, topic: str, **options: str) -> Consumed:
    """The records of a batch read, by one task for each range."""
    source = JosefineDataSource({
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": topic,
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        "maxRecordsPerPartition": "5",
        **options,
    })  # fmt: skip
    reader = source.reader(source.schema())
    found: Consumed = []
    for partition in reader.partitions():
        for batch in reader.read(partition):
            for row in batch.to_pylist():
                headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
                time_ms = round(row["timestamp"].timestamp() * 1_000)
                kind = (row["timestampType"] + 1, time_ms)  # as librdkafka counts them
                found.append((row["offset"], row["key"], row["value"], headers or None, kind))
    return found
