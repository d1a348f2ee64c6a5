"""Archived topics with a real broker and real archives: retention waits, `josefine archive`."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import EARLIEST, BlockingClient, BlockingProducer, NewTopic
from tests.support.cli import josefine, josefine_process
from tests.support.fixtures import broker_fixture
from tests.support.waiting import wait_until

WAIT_S = 60.0

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
        "segment.bytes": "2048",
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


def test_segments_go_once_the_archive_has_them_and_never_after_it_was_dropped(
    broker: Any, tmp_path: Path
) -> None:
    lake = tmp_path / "kept"
    made(broker, "kept", lake)
    sent(broker, "kept", 40)
    wait_until(lambda: "kept-0" in waits(broker), WAIT_S, "retention waits")
    assert "has nothing of this partition yet" in waits(broker)
    assert local_start(broker, "kept") == 0

    with writer(broker):
        wait_until(lambda: local_start(broker, "kept") > 0, WAIT_S, "segments deleted")
        start = local_start(broker, "kept")
        assert archived(lake)[:start] == list(range(start))

        shutil.rmtree(lake)
        wait_until(lambda: "dropped" in waits_after_more(broker), WAIT_S, "the drop is noticed")
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
