"""The replicator in Spark against the one without a JVM: the same rules, so the same rows."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from josefine_broker.client.io_asyncio import AsyncClient
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic
from josefine_journal.blocking import BlockingJournals
from josefine_journal.delta_store import DeltaStore
from josefine_journal.errors import JournalError, Overtaken, TopicWidened
from josefine_journal.events import Binary, Event, Json, PayloadMetadata, SeqNr
from josefine_journal.failpoints import PLACES
from josefine_journal.records import RecordMetadata
from josefine_journal.replicator import Replicator
from josefine_journal.topic import TopicLog
from pipelines.journal.spark_replicator import replicate
from tests.support.broker import BrokerProcess
from tests.support.cli import Done, josefine, josefine_process
from tests.support.fixtures import broker_fixture

pytestmark = pytest.mark.spark

PARTITIONS = 2
KEYS = ("alice", "bob", "carol", "dave")
_NUMBERS = itertools.count(1)


broker = broker_fixture()


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
    """Checklist rows 76 and 79. In a run from Python, which tells of its commit when the store
    shows it, and one of the command; each goes on where the store ends."""
    rng = Random(7)
    ours, plain = tmp_path / "spark", tmp_path / "plain"
    told: list[tuple[dict[int, int], list[int | None]]] = []
    for is_command in (False, True):
        live(broker, topic, rng, 60)
        if is_command:
            done = command(broker, topic, ours, "--spark", "--json")
            assert done.code == 0, done.err
            said = [json.loads(line) for line in done.out.splitlines()]
            assert [each["lag"] for each in said] == [0]
            assert f" {said[0]['rows']} rows stored, nothing to be replicated" in done.err
        else:
            found = replicate(
                spark, broker.bootstrap, topic, ours, PARTITIONS,
                tell=lambda each: told.append((dict(each), ends(ours, topic))),
            )  # fmt: skip
            assert (found.commits, found.stalled) == (1, {})
            assert [list(each.values()) for each, _ in told] == [there for _, there in told]
        assert command(broker, topic, plain).code == 0
        assert ends(ours, topic) == ends(plain, topic)
        assert rows(ours, topic) == rows(plain, topic)
    assert rows(ours, topic)


def command(broker: BrokerProcess, topic: str, store: Path, *more: str) -> Done:
    """In this process, so with the Spark that is there."""
    arguments = ("journal", "replicate", topic, "--store", str(store), "--once", *more)
    return josefine(broker.bootstrap, *arguments)


class DiedError(Exception):
    """In place of a kill."""


DRIVER_PLACES = tuple(
    place for place in PLACES if place not in ("before_files", "before_migration")
)
"""Those that a driver comes by: tasks write the files, and migrations are the other's test."""


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_driver_that_dies_at_a_step_loses_and_repeats_nothing(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Checklist rows 77 and 78. First another replicator is faster, and the tasks' files lie about;
    then, in place of a kill, the driver's part raises behind a commit and within a merge."""
    ours, plain = tmp_path / "spark", tmp_path / "plain"
    rng = Random(5)

    for place in ("overtaken", "before_merge_commit"):
        if place == "before_merge_commit":
            make_merges_due(broker, topic, ours, rng)
        live(broker, topic, rng, 12)

        def die(step: str, place: str = place) -> None:
            if step == place:
                raise DiedError(step)
            if (step, place) == ("read", "overtaken"):
                asyncio.run(commit_plainly(broker, topic, ours))

        with pytest.raises(Overtaken if place == "overtaken" else DiedError):
            replicate(spark, broker.bootstrap, topic, ours, PARTITIONS, at=die)
    replicate(spark, broker.bootstrap, topic, ours, PARTITIONS)

    assert command(broker, topic, plain).code == 0
    assert ends(ours, topic) == ends(plain, topic)
    assert events_of(broker, topic, ours) == events_of(broker, topic, plain)


async def commit_plainly(broker: BrokerProcess, topic: str, store: Path) -> None:
    """A round of the other replicator, without a merge."""
    async with AsyncClient(broker.bootstrap) as client:
        log, delta = TopicLog(client, topic), DeltaStore(store, topic, None)
        await Replicator(log, delta, range(PARTITIONS)).round(0, is_last=True)


def make_merges_due(broker: BrokerProcess, topic: str, store: Path, rng: Random) -> None:
    """So many files are."""
    for _ in range(6):
        live(broker, topic, rng, 8)
        asyncio.run(commit_plainly(broker, topic, store))


def events_of(broker: BrokerProcess, topic: str, store: Path) -> list[Any]:
    """What readers get: files may be merged differently, and writers were late."""
    with BlockingJournals(broker.bootstrap, topic, store=store, unique_seq_nrs=False) as journals:
        return [list(journals.journal(key).read()) for key in KEYS]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_at_every_step_every_event_is_stored_once(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Checklist row 78. With kill -9 of the command; one store lives through all of it."""
    ours, plain = tmp_path / "spark", tmp_path / "plain"
    rng = Random(3)
    for place in DRIVER_PLACES:
        if place.startswith("before_merge") or place == "after_merge":
            make_merges_due(broker, topic, ours, rng)
        live(broker, topic, rng, 12)
        with mock.patch.dict("os.environ", {"JOSEFINE_FAIL": place}):
            process = josefine_process(
                broker.bootstrap, "journal", "replicate", topic, "--store", str(ours), "--once",
                "--spark", "--spark-conf", "spark.master=local[2]",
            )  # fmt: skip
        _, said = process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL, f"{place}: {said}"
    assert command(broker, topic, ours).code == 0
    assert command(broker, topic, plain).code == 0

    assert ends(ours, topic) == ends(plain, topic)
    assert events_of(broker, topic, ours) == events_of(broker, topic, plain)


def test_a_widened_topic_is_refused_in_a_run_from_python_and_of_the_command(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    with BlockingJournals(broker.bootstrap, topic) as journals:
        for key in KEYS:
            journals.journal(key).append([Event(seq_nr=SeqNr(1))])
    with BlockingClient(broker.bootstrap) as client:
        client.create_partitions({topic: PARTITIONS + 1})

    with pytest.raises(TopicWidened, match="were written over 2"):
        replicate(spark, broker.bootstrap, topic, tmp_path, PARTITIONS + 1)
    told = command(broker, topic, tmp_path, "--spark")

    assert (told.code, "has 3 partitions, but its journals" in told.err) == (1, True), told
    assert not (tmp_path / topic).exists()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_an_offset_without_a_record_is_told_from_a_transaction_marker(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    with BlockingJournals(broker.bootstrap, topic) as journals:
        for n in (1, 2):
            for key in KEYS:
                journals.journal(key).append([Event(seq_nr=SeqNr(n))])
            if n == 1:
                in_a_transaction(broker, topic)

    with pytest.raises(JournalError, match=r"has no record at offset .* transaction marker"):
        replicate(spark, broker.bootstrap, topic, tmp_path, PARTITIONS)
    done = command(broker, topic, tmp_path, "--spark")

    assert (done.code, "nothing to be replicated" in done.err) == (0, True), done
    assert sum(row["kind"] == "append" for row in rows(tmp_path, topic)) == 2 * len(KEYS)


def in_a_transaction(broker: BrokerProcess, topic: str) -> None:
    """Records of somebody else, and a marker after them, in every partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(topic, b"x", b"y", partition)
    producer.commit_transaction()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
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
    whole = 2 * (len(KEYS) - poisoned_at)
    assert ends(tmp_path, topic) == [poisoned_at, whole]

    told = command(broker, topic, tmp_path, "--spark")
    assert told.code == 0
    assert f"partition {topic}-0 stopped at a record: {topic}-0 offset {poisoned_at}" in told.err
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic(name=f"{topic}.dead-letters", partitions=1)])
    letters = command(broker, topic, tmp_path, "--spark", "--dead-letters", "{topic}.dead-letters")
    assert f"dead letter: {topic}-0 offset {poisoned_at}" in letters.err
    assert ends(tmp_path, topic) == [2 * poisoned_at + 1, whole]
    assert sum(row["kind"] == "append" for row in rows(tmp_path, topic)) == 2 * len(KEYS)
