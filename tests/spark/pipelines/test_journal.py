"""The replicator in Spark against the one without a JVM: the same rules, so the same rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic
from josefine_journal.blocking import BlockingJournals
from josefine_journal.delta_store import DeltaStore
from josefine_journal.events import Binary, Event, Json, PayloadMetadata, SeqNr
from josefine_journal.records import RecordMetadata
from pipelines.journal import replicate
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine

pytestmark = pytest.mark.spark

PARTITIONS = 2
KEYS = ("alice", "bob", "carol", "dave")
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(Path(tmp_path_factory.mktemp("journal-spark"))) as process:
        yield process


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    name = f"journals-{next(_NUMBERS)}"
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic(name=name, partitions=PARTITIONS)])
    return name


def live(broker: BrokerProcess, topic: str, rng: Random, steps: int) -> None:
    """Writers, also late ones, deleters and purges."""
    metadata = RecordMetadata(
        header={"a": 1}, payload=PayloadMetadata(expire_after=timedelta(days=1), data={"b": [2]})
    )
    with BlockingJournals(broker.bootstrap, topic, origin="here", version="1") as journals:
        last: dict[str, int] = {}
        for step in range(steps):
            key = rng.choice(KEYS)
            journal = journals.journal(key)
            match rng.choice("aaaaedpx"):
                case "a" | "e":
                    first = last.get(key, 0) + 1
                    payload = rng.choice((Json([step, "ä"]), Binary(b"\0\xff")))
                    events = [
                        Event(seq_nr=SeqNr(n), tags=("x", f"t{step}"), payload=payload)
                        for n in range(first, first + 2)
                    ]
                    said = rng.choice((None, metadata))
                    last[key] = first + 1
                    journal.append(events, said, (("h", None), ("h", b"\0")))
                case "d":
                    journal.delete(max(1, last.get(key, 0) - 2))
                case "p":
                    journal.purge()
                    last.pop(key, None)
                case "x":
                    journal.purge(expected_offset=10**6)
                    journal.mark("m")


def rows(root: Path, topic: str) -> list[dict[str, Any]]:
    found = DeltaTable(root / topic).to_pyarrow_table()
    order = [("partition", "ascending"), ("key", "ascending"), ("offset", "ascending")]
    listed: list[dict[str, Any]] = found.sort_by(order).to_pylist()
    return listed


def ends(root: Path, topic: str) -> list[int | None]:
    snapshot = DeltaStore(root, topic, None).snapshot(range(PARTITIONS))
    return [snapshot.replicated(partition) for partition in range(PARTITIONS)]


def test_both_replicators_store_the_same(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Checklist row 76. In two runs; each goes on where the store ends."""
    rng = Random(7)
    ours, plain = tmp_path / "spark", tmp_path / "plain"
    for _ in range(2):
        live(broker, topic, rng, 60)
        done = replicate(spark, broker.bootstrap, topic, ours, PARTITIONS)
        arguments = ("journal", "replicate", topic, "--store", str(plain), "--once")
        assert josefine(broker.bootstrap, *arguments).code == 0
        assert (done.commits, done.stalled) == (1, {})
        assert ends(ours, topic) == ends(plain, topic)
        assert rows(ours, topic) == rows(plain, topic)
    assert rows(ours, topic)


def test_a_record_that_cannot_be_read_stops_its_partition_and_no_other(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Checklist row 81."""
    with (
        BlockingJournals(broker.bootstrap, topic) as journals,
        BlockingClient(broker.bootstrap) as client,
    ):
        places = [journals.journal(key).append([Event(seq_nr=SeqNr(1))]) for key in KEYS]
        producer = BlockingProducer(client)
        producer.send(topic, b"alice", b"x", (("journal.action", b"{"),), partition=0)
        producer.flush()
        for key in KEYS:
            journals.journal(key).append([Event(seq_nr=SeqNr(2))])
    poisoned_at = sum(place.partition == 0 for place in places)

    done = replicate(spark, broker.bootstrap, topic, tmp_path, PARTITIONS)

    assert list(done.stalled) == [0]
    assert f"{topic}-0 offset {poisoned_at}" in done.stalled[0]
    assert ends(tmp_path, topic) == [poisoned_at, 2 * (len(KEYS) - poisoned_at)]
