"""The journal over a topic, on a real broker: nothing is replicated, the topic is all there is."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import records_between
from josefine_broker.client.io_asyncio import AsyncClient
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic
from josefine_broker.records.builder import Record
from josefine_journal.actions import ACTION_HEADER
from josefine_journal.blocking import BlockingJournals
from josefine_journal.errors import ConcurrentWriter, JournalError, RecordsLost
from josefine_journal.events import Binary, Event, Json, PayloadMetadata, SeqNr, Text
from josefine_journal.journals import Journal, Journals
from josefine_journal.readers import Readers
from josefine_journal.records import PartitionOffset, RecordMetadata
from tests.support.broker import BrokerProcess
from tests.support.fixtures import broker_fixture
from tests.support.journal import Model

_NUMBERS = itertools.count(1)
PARTITIONS = 2
GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-journal"


broker = broker_fixture()


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    name = f"journal-{next(_NUMBERS)}"
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic(name=name, partitions=PARTITIONS)])
    return name


@asynccontextmanager
async def journals(broker: BrokerProcess, topic: str, **options: Any) -> AsyncIterator[Journals]:
    async with AsyncClient(broker.bootstrap) as client, asyncio.timeout(120):
        yield Journals(client, topic, **options)


def run_scenario(
    broker: BrokerProcess,
    topic: str,
    scenario: Callable[[Journals], Coroutine[Any, Any, None]],
    **options: Any,
) -> None:
    async def opened() -> None:
        async with journals(broker, topic, **options) as found:
            await scenario(found)

    asyncio.run(opened())


def events(*numbers: int, said: object = None) -> list[Event]:
    return [Event(seq_nr=SeqNr(n), payload=Json(said)) for n in numbers]


async def numbers(journal: Journal, begin: int = 1) -> list[int]:
    return [each.event.seq_nr async for each in journal.read(begin)]


def raw(broker: BrokerProcess, topic: str) -> list[Record]:
    """Every record of the topic."""
    with BlockingClient(broker.bootstrap) as client:
        tps = [TopicPartition(topic, n) for n in range(PARTITIONS)]
        fetched = client.fetch(dict.fromkeys(tps, 0), max_wait_ms=0)
        return [r for tp in tps for r in records_between(fetched[tp].records, 0, None)]


def test_append_is_one_record_in_the_encoding_of_the_golden_files(
    broker: BrokerProcess, topic: str
) -> None:
    """Checklist row 55."""
    given = [
        Event(seq_nr=SeqNr(n), tags=tuple("01234"[: n + 1]), payload=Json(str(n))) for n in (1, 2)
    ]
    payload = PayloadMetadata(expire_after=timedelta(days=1), data={"key": "value"})
    metadata = RecordMetadata(header={"key": "value"}, payload=payload)

    async def scenario(found: Journals) -> None:
        await found.journal("id").append(given, metadata, (("mine", b"\x00"),))

    run_scenario(broker, topic, scenario, origin="origin", version="0.0.1", clock_ms=lambda: 1_000)

    (record,) = raw(broker, topic)
    (name, action), *users = record.headers
    golden = json.loads((GOLDEN / "Append-origin-Json-metadata.json").read_bytes())
    golden["append"] |= {"range": {"from": 1, "to": 2}, "version": "0.0.1"}
    golden["append"] |= {"partitions": PARTITIONS}
    assert (record.key, record.timestamp_ms, users) == (b"id", 1_000, [("mine", b"\x00")])
    assert (name, json.loads(action or b"")) == (ACTION_HEADER, golden)
    assert json.loads(record.value or b"") == json.loads(
        (GOLDEN / "Payload-json-many.json").read_bytes()
    )


def test_event_comes_back_with_all_that_was_said_with_it(broker: BrokerProcess, topic: str) -> None:
    """Checklist row 57."""
    given = [
        Event(seq_nr=SeqNr(3), tags=("a", "ä"), payload=Binary(b"\x00\xff")),
        Event(seq_nr=SeqNr(7), payload=Text("text")),
        Event(seq_nr=SeqNr(9), payload=Json({"a": [1, None]})),
        Event(seq_nr=SeqNr(10)),
    ]
    metadata = RecordMetadata(
        header={"by": "me"}, payload=PayloadMetadata(expire_after=timedelta(days=1), data={"n": 1})
    )

    async def scenario(found: Journals) -> None:
        journal = found.journal("id")
        at = await journal.append(given, metadata, (("mine", b"\x00"), ("mine", None)))

        read = [each async for each in journal.read()]

        assert [each.event for each in read] == given
        for each in read:
            assert (each.origin, each.version, each.timestamp_ms) == ("here", "1.0", 1_000)
            assert (each.metadata, each.partition_offset) == (metadata, at)
            assert each.headers == (("mine", b"\x00"), ("mine", None))

    run_scenario(broker, topic, scenario, origin="here", version="1.0", clock_ms=lambda: 1_000)


@pytest.mark.parametrize("key", ["id", "other", "third"])
def test_what_another_client_appended_to_the_key_is_read(
    broker: BrokerProcess, topic: str, key: str
) -> None:
    """Checklist row 55. It chooses the partition, as Kafka's producers do."""
    header = (GOLDEN / "Append-origin-Binary-metadata.json").read_bytes()
    value = (GOLDEN / "v1-events-binary-many.bin").read_bytes()
    with BlockingClient(broker.bootstrap) as client:
        producer = BlockingProducer(client)
        producer.send(topic, key.encode(), value, ((ACTION_HEADER, header),))
        producer.flush()

    async def scenario(found: Journals) -> None:
        read = [each async for each in found.journal(key).read()]
        assert [each.event.payload for each in read] == [Binary(n) for n in (b"1", b"2", b"3")]
        assert {each.origin for each in read} == {"origin"}
        assert await found.journal(key).pointer() == 5  # as the header says

    run_scenario(broker, topic, scenario)


def test_append_delete_append_read_and_pointer(broker: BrokerProcess, topic: str) -> None:
    """Checklist rows 63 and 64."""

    async def scenario(found: Journals) -> None:
        journal = found.journal("id")
        assert (await numbers(journal), await journal.pointer()) == ([], None)
        await journal.append(events(3, 4, 8))
        await journal.delete(3)
        assert await numbers(journal) == [4, 8]
        await journal.delete(2)  # less than before
        assert (await numbers(journal), await numbers(journal, 5)) == ([4, 8], [8])
        await journal.delete()  # clamped: what comes is not touched
        assert (await numbers(journal), await journal.pointer()) == ([], 8)
        await journal.append(events(9))
        assert (await numbers(journal), await journal.pointer()) == ([9], 9)

    run_scenario(broker, topic, scenario)


def test_delete_of_an_empty_journal_writes_nothing_but_its_mark(
    broker: BrokerProcess, topic: str
) -> None:
    """Checklist row 63."""

    async def scenario(found: Journals) -> None:
        journal = found.journal("id")
        assert await journal.delete() is None
        await journal.append(events(1))
        await journal.purge()
        assert await journal.delete(5) is None
        with pytest.raises(JournalError, match="cannot delete up to 0: not a sequence number"):
            await journal.delete(0)

    run_scenario(broker, topic, scenario)

    kinds = [next(iter(json.loads(record.headers[0][1] or b""))) for record in raw(broker, topic)]
    assert kinds == ["mark", "append", "purge", "mark"]


def test_purged_journal_begins_anew(broker: BrokerProcess, topic: str) -> None:
    """Checklist row 62. Upstream gives events of before the purge, or none."""

    async def scenario(found: Journals) -> None:
        journal, other = found.journal("id"), found.journal("other")
        await other.append(events(1, 2))
        await journal.append(events(1, 2, 3, said="old"))
        await journal.purge()
        assert (await numbers(journal), await journal.pointer()) == ([], None)
        await journal.append(events(1, 2, said="new"), expected_seq_nr=0)

        read = [each.event async for each in journal.read()]

        assert (read, await journal.pointer()) == (events(1, 2, said="new"), 2)
        assert await numbers(other) == [1, 2]

    run_scenario(broker, topic, scenario)


def test_mark_is_a_place_that_changes_nothing(broker: BrokerProcess, topic: str) -> None:
    """Checklist row 68."""

    async def scenario(found: Journals) -> None:
        journal = found.journal("id")
        at = await journal.append(events(1))
        mark = await journal.mark("mine")
        assert mark == PartitionOffset(partition=at.partition, offset=at.offset + 1)
        assert (await numbers(journal), await journal.pointer()) == ([1], 1)

    run_scenario(broker, topic, scenario)

    names = [json.loads(record.headers[0][1] or b"") for record in raw(broker, topic)]
    assert {"mark": {"id": "mine", "partitions": PARTITIONS}} in names


def test_of_writers_that_know_the_same_number_one_wins(broker: BrokerProcess, topic: str) -> None:
    """Checklist row 66. Each tries until it has appended five events, with clients of their own."""

    async def writer(name: int) -> int:
        refused = 0
        async with journals(broker, topic) as found:
            journal = found.journal("id")
            for _ in range(5):
                while True:
                    last = await journal.pointer() or 0
                    try:
                        given = events(last + 1, said=name)
                        await journal.append(given, expected_seq_nr=last)
                        break
                    except ConcurrentWriter:
                        refused += 1
        return refused

    async def scenario(found: Journals) -> None:
        refused = await asyncio.gather(*(writer(name) for name in range(4)))
        read = [each.event async for each in found.journal("id").read()]
        assert [each.seq_nr for each in read] == list(range(1, 21))
        said = [each.payload.value for each in read if isinstance(each.payload, Json)]
        assert sorted(said) == sorted([0, 1, 2, 3] * 5)
        assert sum(refused) > 0, "nobody was ever late: this shows nothing"

    run_scenario(broker, topic, scenario)


class Counting(AsyncClient):
    """Says how often it was asked for records."""

    fetches = 0

    async def fetch(self, *arguments: Any, **options: Any) -> Any:
        self.fetches += 1
        return await super().fetch(*arguments, **options)


def test_writer_that_nobody_disturbs_reads_nothing_again(broker: BrokerProcess, topic: str) -> None:
    """Nor does one that asks for what is new: the log before it is not read again."""

    async def scenario(others: Journals) -> None:
        for n in range(1, 4):
            await others.journal("id").append(events(n))
        async with Counting(broker.bootstrap) as client:
            reader = Journals(client, topic)
            await reader.topic.partition_count()  # the check of the topic fetches, too
            client.fetches, journal = 0, reader.journal("id")
            assert (await numbers(journal), client.fetches) == ([1, 2, 3], 1)
            for n in range(4, 10):
                await journal.append(events(n), expected_seq_nr=n - 1)
            assert (await journal.pointer(), await numbers(journal, 10)) == (9, [])
            assert client.fetches == 1
            await others.journal("id").append(events(10))
            assert (await numbers(journal, 10), client.fetches) == ([10], 2)

    run_scenario(broker, topic, scenario)


def test_topic_made_again_is_another_log(broker: BrokerProcess, topic: str) -> None:
    async def scenario(found: Journals) -> None:
        journal = found.journal("id")
        await journal.append(events(1, 2), expected_seq_nr=0)
        assert await journal.pointer() == 2
        with BlockingClient(broker.bootstrap) as client:
            client.delete_topics([topic])
            client.create_topics([NewTopic(name=topic, partitions=PARTITIONS)])
        async with journals(broker, topic) as others:
            for n in range(1, 6):  # longer than what is remembered
                await others.journal("id").append(events(n))
        assert (await journal.pointer(), await numbers(journal)) == (5, [1, 2, 3, 4, 5])

    run_scenario(broker, topic, scenario)


def test_records_that_went_away_are_told_with_their_offsets_until_the_journal_is_purged(
    broker: BrokerProcess, topic: str
) -> None:
    async def scenario(found: Journals) -> None:
        journal = found.journal("id")
        at = await journal.append(events(1), expected_seq_nr=0)
        async with journals(broker, topic) as others:
            last = await others.journal("id").append(events(2))
            await others.journal("id").append(events(3))
        with BlockingClient(broker.bootstrap) as client:
            client.delete_records({TopicPartition(topic, at.partition): last.offset + 1})
        for _ in range(2):
            with pytest.raises(RecordsLost, match=f"the records from 0 to {last.offset} left"):
                await journal.pointer()
        await journal.purge()
        await journal.append(events(1), expected_seq_nr=0)
        assert (await journal.pointer(), await numbers(journal)) == (1, [1])

    run_scenario(broker, topic, scenario)


def test_refused_append_is_in_no_reader_and_says_why(broker: BrokerProcess, topic: str) -> None:
    """Checklist row 66."""

    async def scenario(found: Journals) -> None:
        journal = found.journal("id")
        await journal.append(events(1, 2), expected_seq_nr=0)
        with pytest.raises(JournalError, match="event 1 is not after the expected number 1"):
            await journal.append(events(1, 2), expected_seq_nr=1)
        with pytest.raises(ConcurrentWriter) as caught:
            await journal.append(events(2, 3), expected_seq_nr=1)
        assert str(caught.value) == (
            f"journal 'id' of topic '{topic}': sequence number 1 was expected to be the last, "
            "2 is: another writer was faster"
        )
        assert (await numbers(journal), await journal.pointer()) == ([1, 2], 2)

    run_scenario(broker, topic, scenario)


@pytest.mark.parametrize("kept_bytes_max", [0, 2_000, 2**20])
@pytest.mark.parametrize("seed", range(3))
def test_journals_of_one_partition_are_as_their_models(
    broker: BrokerProcess, topic: str, seed: int, kept_bytes_max: int
) -> None:
    """Checklist rows 61, 62 and 64."""
    rng = Random(seed)

    async def scenario(found: Journals) -> None:
        models = {key: Model() for key in ("a", "b", "c")}
        async with journals(broker, topic, kept_bytes_max=kept_bytes_max) as other:
            for step in range(60):  # what one remembers, the other makes old
                key, one = rng.choice(sorted(models)), rng.choice((found, other))
                await one_step(rng, one.journal(key), models[key], step)
            for key, model in models.items():
                for one in (found, other):
                    read = [each.event async for each in one.journal(key).read()]
                    assert (read, await one.journal(key).pointer()) == (model.read(), model.pointer)

    run_scenario(broker, topic, scenario, kept_bytes_max=kept_bytes_max)


async def one_step(rng: Random, journal: Journal, model: Model, step: int) -> None:
    pointer = model.pointer or 0
    match rng.choice("aaaaadedpmrr"):
        case "a" | "e" as kind:
            begin = pointer + rng.randint(1, 2)
            given = events(*range(begin, begin + rng.randint(1, 4)), said=step)
            expected = None if kind == "a" else max(0, pointer - rng.randint(0, 1))
            if model.append(given, expected):
                await journal.append(given, expected_seq_nr=expected)
            else:
                with pytest.raises(ConcurrentWriter):
                    await journal.append(given, expected_seq_nr=expected)
        case "d":
            to = max(1, pointer + rng.randint(-3, 2))
            written = await journal.delete(to)
            assert (written is None) == (model.pointer is None)
            model.delete(to)
        case "p":
            await journal.purge()
            model.purge()
        case "m":
            await journal.mark("m")
        case "r":
            begin = rng.choice((1, 2, pointer, pointer + 1)) or 1
            assert [each.event async for each in journal.read(begin)] == model.read(begin)


def test_stream_of_a_long_journal_comes_in_pieces_of_a_fetch(
    broker: BrokerProcess, topic: str
) -> None:
    """Checklist row 67. 3.2 MB of values, of which 64 kB are kept: the rest is read again."""

    async def scenario(found: Journals) -> None:
        journal = found.journal("id")
        for first in range(1, 321, 10):
            await journal.append(events(*range(first, first + 10), said="x" * 10_000))

        chunks = [[each.event.seq_nr for each in chunk] async for chunk in journal.chunks()]

        assert [n for chunk in chunks for n in chunk] == list(range(1, 321))
        assert max(map(len, chunks)) < 120  # a mebibyte of records of 10,000 bytes
        assert await numbers(journal, 316) == [316, 317, 318, 319, 320]

    run_scenario(broker, topic, scenario, kept_bytes_max=64_000)


def test_reader_sees_what_was_acknowledged_before_it_began(
    broker: BrokerProcess, topic: str
) -> None:
    """Checklist row 60. While another client goes on appending."""
    told: list[int] = []

    async def writer() -> None:
        async with journals(broker, topic) as found:
            for n in range(1, 101):
                await found.journal("id").append(events(n))
                told.append(n)

    async def scenario(found: Journals) -> None:
        writing, reads = asyncio.ensure_future(writer()), 0
        while not writing.done():
            before = len(told)
            read, pointer = await numbers(found.journal("id")), await found.journal("id").pointer()
            assert read == list(range(1, len(read) + 1))
            assert before <= len(read) <= (pointer or 0)
            reads += 1
        await writing
        assert reads > 3, "the writer was done at once: this shows nothing"

    run_scenario(broker, topic, scenario)


def test_readers_of_a_pool_read_what_the_client_would(broker: BrokerProcess, topic: str) -> None:
    """Checklist row 71. Many journals at a time, of which one may fetch."""

    async def scenario() -> None:
        pool = Readers(lambda: AsyncClient(broker.bootstrap), multiplier=1, cores=1)
        async with journals(broker, topic, readers=pool, head_cache_bytes_max=0) as found:
            keys = [f"k{n}" for n in range(8)]
            for key in keys:
                await found.journal(key).append(events(1, 2))
            read = await asyncio.gather(*(numbers(found.journal(key)) for key in keys))
            assert (read, pool.size) == ([[1, 2]] * len(keys), 1)
            async for _ in found.journal(keys[0]).read():  # nobody has a reader meanwhile
                assert await found.journal(keys[1]).pointer() == 2
            await pool.close()
            with pytest.raises(KafkaError, match="the client is closed"):
                await numbers(found.journal("k0"))

    asyncio.run(scenario())


def test_foreign_records_are_passed_over_and_a_damaged_one_is_named(
    broker: BrokerProcess, topic: str
) -> None:
    at: list[PartitionOffset] = []

    async def begin(found: Journals) -> None:
        at.append(await found.journal("id").append(events(1)))

    run_scenario(broker, topic, begin)
    with BlockingClient(broker.bootstrap) as client:
        producer = BlockingProducer(client)
        for headers in ((), ((ACTION_HEADER, b'{"merge":{}}'),)):
            producer.send(topic, b"id", b"not ours", headers, partition=at[0].partition)
        producer.send(topic, b"broken", b"x", ((ACTION_HEADER, b"{"),), at[0].partition)
        producer.flush()

    async def scenario(found: Journals) -> None:
        assert await numbers(found.journal("id")) == [1]  # another journal's fault is not its own
        with BlockingClient(broker.bootstrap) as client:
            producer = BlockingProducer(client)
            producer.send(topic, b"id", b"x", ((ACTION_HEADER, b"{"),), at[0].partition)
            producer.flush()
        with pytest.raises(JournalError, match=rf"^{topic}-{at[0].partition} offset \d+: journal"):
            await found.journal("id").pointer()

    run_scenario(broker, topic, scenario)


def test_topic_that_is_not_there_is_named(broker: BrokerProcess) -> None:
    async def scenario(found: Journals) -> None:
        for call in (found.journal("id").pointer(), found.journal("id").append(events(1))):
            with pytest.raises(KafkaError, match="topic 'nowhere' does not exist"):
                await call
        with pytest.raises(JournalError, match="must not be empty"):
            found.journal("")

    run_scenario(broker, "nowhere", scenario)


def test_blocking_journal_is_the_same_journal(broker: BrokerProcess, topic: str) -> None:
    with BlockingJournals(broker.bootstrap, topic, kept_bytes_max=0) as found:
        journal = found.journal("id")
        assert (list(journal.read()), journal.pointer(), journal.delete()) == ([], None, None)
        journal.append(events(1, 2, 3), expected_seq_nr=0)
        with pytest.raises(ConcurrentWriter):
            journal.append(events(1), expected_seq_nr=0)
        journal.delete(1)
        stream = journal.read()
        assert next(stream).event == events(2)[0]
        stream.close()  # the rest is not read
        assert [each.event.seq_nr for each in journal.read(3)] == [3]
        assert journal.pointer() == 3
        journal.mark("m")
        journal.purge()
        assert (list(journal.read()), journal.pointer()) == ([], None)
