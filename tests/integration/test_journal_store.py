"""Journals with a store beside their topic: real brokers, real replicators, real deaths."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from unittest import mock
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import LATEST, BlockingClient, BlockingProducer, NewTopic
from josefine_journal.blocking import BlockingJournals
from josefine_journal.errors import RecordsLost
from josefine_journal.events import Event, Json, PayloadMetadata, SeqNr
from josefine_journal.failpoints import PLACES
from josefine_journal.records import RecordMetadata
from tests.support.broker import BrokerProcess
from tests.support.cli import Done, josefine, josefine_process
from tests.support.fixtures import broker_fixture
from tests.support.waiting import wait_until

_NUMBERS = itertools.count(1)
WAIT_S = 90.0
PARTITIONS = 2
KEYS = ("alice", "bob", "carol")


broker = broker_fixture()


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    name = f"stored-{next(_NUMBERS)}"
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic(name=name, partitions=PARTITIONS)])
    return name


def append(broker: BrokerProcess, topic: str, first: int, count: int) -> None:
    with BlockingJournals(broker.bootstrap, topic) as journals:
        for key, n in itertools.product(KEYS, range(first, first + count)):
            event = Event(seq_nr=SeqNr(n), payload=Json([key, n]))
            journals.journal(key).append([event], expected_seq_nr=n - 1)


def read(broker: BrokerProcess, topic: str, store: Path | None) -> dict[str, list[int]]:
    with BlockingJournals(broker.bootstrap, topic, store=store) as journals:
        found = {}
        for key in KEYS:
            events = list(journals.journal(key).read())
            assert all(each.event.payload == Json([key, each.event.seq_nr]) for each in events)
            found[key] = [each.event.seq_nr for each in events]
        return found


def everything(count: int) -> dict[str, list[int]]:
    return {key: list(range(1, count + 1)) for key in KEYS}


def take_from_topic(broker: BrokerProcess, topic: str, partitions: int = PARTITIONS) -> None:
    """All that is there, as retention would."""
    with BlockingClient(broker.bootstrap) as client:
        asked = {TopicPartition(topic, partition): LATEST for partition in range(partitions)}
        ends = client.list_offsets(asked)
        client.delete_records({tp: found.offset for tp, found in ends.items()})


def replicate(broker: BrokerProcess, topic: str, store: Path, *more: str) -> Done:
    return josefine(
        broker.bootstrap, "journal", "replicate", topic, "--store", str(store), "--once", *more
    )


def test_what_retention_took_is_read_from_the_store(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Checklist row 59."""
    append(broker, topic, 1, 5)
    assert read(broker, topic, tmp_path) == everything(5)  # nothing is replicated yet
    done = replicate(broker, topic, tmp_path)
    assert (done.code, done.err) == (
        0,
        f"{topic}: 18 records, 15 rows stored, nothing to be replicated\n",
    ), done
    take_from_topic(broker, topic)
    assert read(broker, topic, tmp_path) == everything(5)
    append_on(broker, topic, tmp_path, 6, 2)
    assert read(broker, topic, tmp_path) == everything(7)  # the store lags behind
    assert replicate(broker, topic, tmp_path).code == 0
    take_from_topic(broker, topic)
    assert read(broker, topic, tmp_path) == everything(7)


def append_on(broker: BrokerProcess, topic: str, store: Path, first: int, count: int) -> None:
    """By a writer that knows nothing of the journal but what the store has."""
    with BlockingJournals(broker.bootstrap, topic, store=store) as journals:
        for key, n in itertools.product(KEYS, range(first, first + count)):
            event = Event(seq_nr=SeqNr(n), payload=Json([key, n]))
            journals.journal(key).append([event], expected_seq_nr=n - 1)


def test_killed_at_every_place_every_event_is_stored_once(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Checklist row 78. With kill -9; the topic loses its records each time all is stored."""
    count = 0
    died = []
    for place in PLACES * 2:
        append_on(broker, topic, tmp_path, count + 1, 2)
        count += 2
        with mock.patch.dict("os.environ", {"JOSEFINE_FAIL": place}):
            process = process_of(broker, topic, tmp_path, "--once")
        _, said = process.communicate(timeout=WAIT_S)
        if process.returncode == -signal.SIGKILL:
            died.append(place)
        else:  # no merge was due, or the table is there, and of this layout
            may_pass = ("before_create", "before_migration", *PLACES[-3:])
            assert (process.returncode, place in may_pass) == (0, True), said
        assert read(broker, topic, tmp_path) == everything(count)
    assert replicate(broker, topic, tmp_path).code == 0
    take_from_topic(broker, topic)

    assert read(broker, topic, tmp_path) == everything(count)
    offsets = DeltaTable(tmp_path / topic).to_pyarrow_table(columns=["partition", "offset"])
    assert len(offsets) == len(set(map(tuple, map(dict.values, offsets.to_pylist()))))
    assert set(died) == set(PLACES) - {"before_migration"}


def process_of(broker: BrokerProcess, topic: str, store: Path, *more: str) -> subprocess.Popen[str]:
    arguments = ("journal", "replicate", topic, "--store", str(store), *more)
    return josefine_process(broker.bootstrap, *arguments)


def lag(broker: BrokerProcess, topic: str, store: Path) -> int:
    done = josefine(broker.bootstrap, "journal", "status", topic, "--store", str(store), "--json")
    assert done.code == 0, done.err
    return sum(each["lag"] for each in json.loads(done.out)["partitions"])


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_replicator_goes_on_when_its_broker_comes_back_and_ends_when_it_is_told(
    topic: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with BrokerProcess(tmp_path_factory.mktemp("coming-back")) as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topics([NewTopic(name=topic, partitions=PARTITIONS)])
        append(broker, topic, 1, 3)
        process = process_of(broker, topic, tmp_path, "--interval", "100ms", "--json")
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["rows"] == 9
            broker.kill()
            broker.start()
            append(broker, topic, 4, 3)
            wait_until(lambda: lag(broker, topic, tmp_path) == 0, WAIT_S, "all is replicated")
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
        assert process.returncode == 0, said
        assert "18 rows stored, nothing to be replicated" in said
        take_from_topic(broker, topic)
        assert read(broker, topic, tmp_path) == everything(6)


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_records_that_left_before_they_were_stored_are_told_and_never_passed_over_silently(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Checklist row 83."""
    append(broker, topic, 1, 2)
    assert replicate(broker, topic, tmp_path).code == 0
    append(broker, topic, 3, 2)
    with BlockingClient(broker.bootstrap) as client:
        asked = {TopicPartition(topic, n): LATEST for n in range(PARTITIONS)}
        ends = {tp.partition: each.offset for tp, each in client.list_offsets(asked).items()}
    take_from_topic(broker, topic)

    stopped = replicate(broker, topic, tmp_path)
    assert stopped.code == 1
    assert "left the topic before they were replicated: they are lost" in stopped.err
    assert f"to {ends[0] - 1} " in stopped.err or f"to {ends[1] - 1} " in stopped.err
    with (
        BlockingJournals(broker.bootstrap, topic, store=tmp_path) as journals,
        pytest.raises(RecordsLost),
    ):
        list(journals.journal("alice").read())

    passed = replicate(broker, topic, tmp_path, "--lost", "skip")
    assert passed.code == 0
    assert passed.err.count("they are lost; skipped") == PARTITIONS
    assert read(broker, topic, tmp_path) == everything(2)


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_journals_of_a_widened_topic_are_moved_however_often_that_is_killed(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """With kill -9 at each place; the topic has lost what the store has."""
    append(broker, topic, 1, 3)
    assert replicate(broker, topic, tmp_path).code == 0
    take_from_topic(broker, topic)
    append_on(broker, topic, tmp_path, 4, 2)
    before = raw_events(broker, topic, tmp_path)
    config = ("--config", "retention.ms=-1")
    altered = josefine(broker.bootstrap, "topics", "alter", topic, "--partitions", "5", *config)
    assert altered.code == 0, altered.err
    move = ("journal", "move", topic, "--store", str(tmp_path))

    for place in ("moved_some@2", "moved_left", "moved_marked"):
        with mock.patch.dict("os.environ", {"JOSEFINE_FAIL": place}):
            process = josefine_process(broker.bootstrap, *move)
        _, said = process.communicate(timeout=WAIT_S)
        assert process.returncode == -signal.SIGKILL, said
        refused = josefine(broker.bootstrap, "journal", "read", topic, "bob", *move[-2:])
        assert (refused.code, "5 partitions, but its" in refused.err) == (1, True), refused
    done, again = (josefine(broker.bootstrap, *move) for _ in range(2))

    assert (done.code, done.err) == (0, ""), done
    assert f"{topic}: its journals are where they belong, over 5 partitions\n" == again.out
    assert raw_events(broker, topic, tmp_path) == before
    append_on(broker, topic, tmp_path, 6, 1)
    assert replicate(broker, topic, tmp_path).code == 0
    take_from_topic(broker, topic, 5)
    assert read(broker, topic, tmp_path) == everything(6)


def raw_events(broker: BrokerProcess, topic: str, store: Path) -> list[tuple[object, ...]]:
    """All of events but where they are."""
    with BlockingJournals(broker.bootstrap, topic, store=store) as journals:
        return [
            (each.event, each.timestamp_ms, each.origin, each.metadata, each.headers)
            for key in KEYS
            for each in journals.journal(key).read()
        ]


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_a_store_that_was_restored_is_told_and_stored_again(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    append(broker, topic, 1, 2)
    assert replicate(broker, topic, tmp_path).code == 0
    version = DeltaTable(tmp_path / topic).version()
    append_on(broker, topic, tmp_path, 3, 2)
    assert replicate(broker, topic, tmp_path).code == 0

    DeltaTable(tmp_path / topic).restore(version)

    assert read(broker, topic, tmp_path) == everything(4)
    status = josefine(broker.bootstrap, "journal", "status", topic, "--store", str(tmp_path))
    assert status.err.count("the store was restored from offset") == PARTITIONS
    again = replicate(broker, topic, tmp_path)
    assert again.err.count("are read from the topic again") == PARTITIONS
    take_from_topic(broker, topic)
    assert read(broker, topic, tmp_path) == everything(4)


def test_transaction_markers_are_neither_lost_records_nor_a_gap(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    append(broker, topic, 1, 2)
    in_a_transaction(broker, topic)
    append(broker, topic, 3, 2)
    assert read(broker, topic, None) == everything(4)

    status = josefine(
        broker.bootstrap, "journal", "status", topic, "--store", str(tmp_path), "--json"
    )
    done = replicate(broker, topic, tmp_path)

    found = json.loads(status.out)["partitions"]
    assert [(each["lost"], each["lost_ranges"]) for each in found] == [(0, [])] * PARTITIONS
    assert (done.code, "nothing to be replicated" in done.err) == (0, True), done
    take_from_topic(broker, topic)
    assert read(broker, topic, tmp_path) == everything(4)


def in_a_transaction(broker: BrokerProcess, topic: str) -> None:
    """Records of somebody else, and a marker after them, in every partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(topic, b"x", b"y", partition)
    producer.commit_transaction()


def test_a_damaged_record_stops_its_partition_and_no_other(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Checklist row 81."""
    append(broker, topic, 1, 2)
    poison(broker, topic)
    append(broker, topic, 3, 2)

    done = replicate(broker, topic, tmp_path)

    assert f"partition {topic}-0 stopped at a record: {topic}-0 offset" in done.err
    status = josefine(
        broker.bootstrap, "journal", "status", topic, "--store", str(tmp_path), "--json"
    )
    lags = [each["lag"] for each in json.loads(status.out)["partitions"]]
    assert (lags[0] > 0, lags[1]) == (True, 0)


def poison(broker: BrokerProcess, topic: str) -> None:
    with BlockingClient(broker.bootstrap) as client:
        producer = BlockingProducer(client)
        producer.send(topic, b"alice", b"x", (("journal.action", b"{"),), partition=0)
        producer.flush()


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_a_damaged_record_goes_to_the_dead_letters_and_all_else_is_stored(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Checklist rows 81 and 82."""
    append(broker, topic, 1, 2)
    poison(broker, topic)
    append(broker, topic, 3, 2)
    letters = f"{topic}.dead-letters"
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic(name=letters, partitions=1)])

    done = replicate(broker, topic, tmp_path, "--dead-letters", "{topic}.dead-letters")

    assert (done.code, "nothing to be replicated" in done.err) == (0, True), done
    assert done.err.startswith(f"dead letter: {topic}-0 offset")
    taken = josefine(
        broker.bootstrap, "consume", letters, "--from", "earliest", "--to", "latest", "--json"
    )
    assert taken.out.count('"journal.dead-letter"') == 1, taken
    take_from_topic(broker, topic)
    assert read(broker, topic, tmp_path) == everything(4)


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_topics_with_a_prefix_are_replicated_by_one_that_expires_them_too(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Checklist rows 72, 74 and 80."""
    append(broker, topic, 1, 2)
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic(name=f"{topic}-more", partitions=PARTITIONS)])
    with BlockingJournals(broker.bootstrap, topic) as journals:
        short = RecordMetadata(payload=PayloadMetadata(expire_after=timedelta(milliseconds=1)))
        third = Event(seq_nr=SeqNr(3), payload=Json(["alice", 3]))
        journals.journal("alice").append([third], short)
    arguments = ("journal", "replicate", "--prefix", topic, "--store", str(tmp_path))
    process = josefine_process(
        broker.bootstrap, *arguments, "--interval", "100ms", "--expire", "100ms", "--metrics", "0"
    )
    try:
        assert process.stderr is not None
        where = process.stderr.readline().removeprefix("metrics: ").strip()
        append(broker, f"{topic}-more", 1, 2)
        wait_until(lambda: lag(broker, f"{topic}-more", tmp_path) == 0, WAIT_S, "the second one")
        gone = {**everything(2), "alice": []}
        wait_until(lambda: read(broker, topic, None) == gone, WAIT_S, "alice expires")
        with urlopen(where, timeout=WAIT_S) as answer:
            assert f'replicator_records_total{{topic="{topic}"}}' in answer.read().decode()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
    assert process.returncode == 0, said
    listed = josefine(broker.bootstrap, "journal", "ids", topic, "--store", str(tmp_path))
    assert sorted(listed.out.split()) == ["bob", "carol"], listed
    assert lag(broker, topic, tmp_path) == 0  # the marks of readers, too


@pytest.mark.slow
def test_topics_of_a_replicator_that_is_killed_are_taken_by_the_other(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Checklist row 75. With kill -9 of a process, while writers are at work."""
    prefix = f"killed-{topic}-"
    names = [prefix + each for each in "abc"]
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic(name=name, partitions=PARTITIONS) for name in names])
    arguments = ("journal", "replicate", "--prefix", prefix, "--store", str(tmp_path))
    first, other = (
        josefine_process(broker.bootstrap, *arguments, "--interval", "50ms", "--json")
        for _ in range(2)
    )
    try:
        for done in range(0, 30, 10):
            for name in names:
                append(broker, name, done + 1, 10)
            if done == 10:  # both have had time to share: what they do not hold is not replicated
                wait_until(lambda: all_stored(broker, names, tmp_path), WAIT_S, "they share")
                first.kill()
        wait_until(lambda: all_stored(broker, names, tmp_path), WAIT_S, "the other has all")
        other.send_signal(signal.SIGTERM)
        said, _ = other.communicate(timeout=WAIT_S)
    finally:
        first.kill()
        other.kill()
    assert {json.loads(line)["topic"] for line in said.splitlines()} == set(names)
    for name in names:
        take_from_topic(broker, name)
        assert read(broker, name, tmp_path) == everything(30)
        offsets = DeltaTable(tmp_path / name).to_pyarrow_table(columns=["partition", "offset"])
        assert len(offsets) == len({tuple(each.values()) for each in offsets.to_pylist()})


def all_stored(broker: BrokerProcess, names: Sequence[str], store: Path) -> bool:
    return all(lag(broker, name, store) == 0 for name in names)


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_two_events_of_one_number_in_the_store_are_told_and_skipped_if_asked(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Checklist row 65."""

    def journal(verb: str, *more: str, stdin: str = "") -> Done:
        return josefine(broker.bootstrap, "journal", verb, topic, "alice", *more, stdin=stdin)

    for said in ("a", "b"):
        assert journal("append", stdin=f'{{"seq_nr": 1, "text": "{said}"}}').code == 0
    assert replicate(broker, topic, tmp_path).code == 0
    of_store = ("--store", str(tmp_path))

    told, skipped = journal("read", *of_store), journal("read", *of_store, "--duplicates", "skip")

    assert (told.code, told.out) == (1, "")
    assert f"Data integrity violated: sequence number 1 is at {topic}-" in told.err
    assert (skipped.code, skipped.out, skipped.err) == (0, "1\ta\n", "")
    assert journal("read", "--duplicates", "x").err.endswith(
        "--duplicates x: expected stop or skip\n"
    )


@pytest.mark.parametrize("verb", ["read", "pointer"])
def test_exit_code_of_a_reader_of_the_store_holds(
    broker: BrokerProcess, topic: str, tmp_path: Path, verb: str
) -> None:
    """Arrow's and delta-rs's threads are there when it ends."""
    append(broker, topic, 1, 1)
    assert replicate(broker, topic, tmp_path).code == 0
    arguments = ("journal", verb, topic, "alice", "--store", str(tmp_path))
    for _ in range(5):
        process = josefine_process(broker.bootstrap, *arguments)
        out, said = process.communicate(timeout=WAIT_S)
        assert (process.returncode, out[:1]) == (0, "1"), said


@pytest.mark.long_proof(share=3, among="histories of stores")
def test_purge_takes_the_snapshots_of_its_journal_too(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Checklist row 84."""
    of_store = ("--store", str(tmp_path))
    state = '{"seq_nr": 1, "text": "old life"}'
    for key in ("alice", "bob"):
        saved = josefine("", "journal", "snapshot", "save", topic, key, *of_store, stdin=state)
        assert saved.code == 0, saved.err
    purge = ("journal", "purge", topic, "alice", "--yes", *of_store)
    assert josefine(broker.bootstrap, *purge).code == 0
    left = [
        josefine("", "journal", "snapshot", "list", topic, key, *of_store).out
        for key in ("alice", "bob")
    ]
    assert left == ["", "1\told life\n"]


def test_what_cannot_be_is_told(broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    """Checklist row 92."""
    cases = [
        (("--interval", "soon"), 2, "--interval soon: expected a time, like"),
        (("--lost", "maybe"), 2, "--lost maybe: expected stop or skip"),
        (("--partitions", "x"), 2, "--partitions x: expected numbers with commas"),
        (("--spark", "--partitions", "0"), 2, "--spark replicates one whole topic"),
        (("--spark-conf", "a=b"), 2, "--spark-conf needs --spark"),
        (("--spark", "--spark-conf", "a"), 2, "--spark-conf 'a' is not KEY=VALUE"),
        (("--partitions", "0,2"), 2, f"topic '{topic}' has 2 partitions: 0 to 1"),
    ]
    for more, code, said in cases:
        done = replicate(broker, topic, tmp_path, *more)
        assert done.code == code
        assert said in done.err
    nowhere = replicate(broker, "nowhere", tmp_path)
    assert nowhere.code == 1
    assert "topic 'nowhere' does not exist" in nowhere.err
