"""Kafka Streams' word count, killed in its middle, or its brokers: each count is told, and by
exactly once once."""

from __future__ import annotations

import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from josefine_broker.base import ids
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.compat.foreign import java_command
from tests.support.cluster import REPLICATED, Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
TIMEOUT_S = 120.0
WORDS = ("raft", "chain", "block")
LINES = 60
"""Of each partition and round; a line has each word once, and `block` twice."""


@contextmanager
def counting(
    bootstrap: str, source: str, target: str, guarantee: str, folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Ended by kill -9."""
    folder.mkdir(parents=True, exist_ok=True)
    command = java_command("WordCount", bootstrap, source, source, target, guarantee, str(folder))
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def feed(client: BlockingClient, source: str) -> None:
    line = Record(value=f"{' '.join(WORDS)} block".encode(), timestamp_ms=1_700_000_000_000)
    records = [line] * LINES
    client.produce({ids.TopicPartition(source, each): build_batch(records) for each in range(2)})


def told(bootstrap: str, target: str, last: int) -> dict[str, list[int]]:
    """Word → its counts, as read_committed sees them, when nothing more comes and each word has had
    so many."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    counts: dict[str, list[int]] = defaultdict(list)
    with closing(reader):
        reader.assign([TopicPartition(target, each, 0) for each in range(2)])
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            message = reader.poll(0.5)
            if message is not None and message.error() is None:
                counts[message.key().decode()].append(int(message.value()))
            elif message is None and all(max(counts[w], default=0) >= last for w in WORDS):
                break
    return dict(counts)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_words_are_counted_though_the_application_is_killed(
    bootstrap: str, tmp_path: Path, guarantee: str
) -> None:
    source, target = f"lines-{guarantee}", f"counts-{guarantee}"
    with BlockingClient(bootstrap) as client:
        client.create_topics([NewTopic(source, 2, 1), NewTopic(target, 2, 1)])
        feed(client, source)
        with counting(bootstrap, source, target, guarantee, tmp_path / "state"):
            told(bootstrap, target, LINES)  # about half of them, and it dies
        feed(client, source)
        with counting(bootstrap, source, target, guarantee, tmp_path / "state"):
            counts = told(bootstrap, target, 4 * LINES)

    total = {word: 4 * LINES * (2 if word == "block" else 1) for word in WORDS}
    if guarantee == "exactly_once_v2":
        assert counts == {word: list(range(1, total[word] + 1)) for word in WORDS}
    else:
        assert all(max(counts[word]) >= total[word] for word in WORDS)


def test_words_are_counted_once_though_brokers_die_under_the_application(tmp_path: Path) -> None:
    """Each of three brokers in its turn: it led some of the topics, and some of the
    transactions."""
    source, target = "lines", "counts"
    with (
        Cluster(tmp_path / "brokers", **REPLICATED) as cluster,
        BlockingClient(cluster.bootstrap) as client,
    ):
        client.create_topics([NewTopic(source, 2, 3), NewTopic(target, 2, 3)])
        with counting(cluster.bootstrap, source, target, "exactly_once_v2", tmp_path / "state"):
            for number, broker in enumerate(cluster.voters, start=1):
                feed(client, source)
                told(cluster.bootstrap, target, number * 2 * LINES - LINES)  # about half of them
                cluster.kill(broker)
                told(cluster.bootstrap, target, number * 2 * LINES)
                cluster.restart(broker)
                cluster.wait_settled()
            rounds = len(cluster.voters)
            counts = told(cluster.bootstrap, target, rounds * 2 * LINES)

    total = {word: rounds * 2 * LINES * (2 if word == "block" else 1) for word in WORDS}
    assert counts == {word: list(range(1, total[word] + 1)) for word in WORDS}
