"""The topic as a log: records written once, and a read that ends with an error or its end."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.produce import UNKNOWN_OFFSET
from josefine_broker.records.batch import parse_header
from josefine_broker.records.builder import Record, build_batch
from josefine_journal.errors import JournalError, RecordsGone, RecordsLost
from josefine_journal.topic import TopicLog

RECORD = Record(b"k", b"v", (), 5)


class Client:
    """A topic with one partition: batches that were written, and what fails next."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.failures: list[BaseException] = []
        self.producers = 0
        self.next_offset = 0
        self.parts: list[Any] = []
        self.id, self.counts = UUID(int=1), 0

    def topic_id(self, topic: str) -> UUID:
        return self.id

    async def partition_count(self, topic: str) -> int:
        self.counts += 1
        return 3

    async def init_producer_id(self) -> ProducerIdentity:
        self.producers += 1
        return ProducerIdentity(self.producers, 0)

    async def produce(self, batches: dict[TopicPartition, bytes]) -> dict[TopicPartition, int]:
        ((tp, batch),) = batches.items()
        self.batches.append(bytes(batch))
        if self.failures:
            raise self.failures.pop()
        return {tp: self.next_offset}

    async def fetch(self, at: Any, options: Any) -> Any:
        return dict.fromkeys(at, self.parts.pop(0))

    async def describe_configs(self, topics: list[str]) -> Any:
        raise self.failures.pop()


def log_of(client: Client) -> TopicLog:
    made: Any = client
    return TopicLog(made, "t", holds_journals=False)


def headers(client: Client) -> list[tuple[int, int]]:
    """(producer, first sequence number) of each batch."""
    found = [parse_header(batch) for batch in client.batches]
    return [(each.producer_id, each.base_sequence) for each in found]


def part(offset: int = 0, count: int = 0, code: ErrorCode = ErrorCode.none, start: int = 0) -> Any:
    data = build_batch([RECORD] * count, base_offset=offset) if count else b""
    return SimpleNamespace(records=memoryview(data), error_code=code, log_start_offset=start)


async def read_all(log: TopicLog, begin: int, end: int) -> list[int]:
    return [each.offset async for chunk in log.read(0, begin, end) for each in chunk]


def test_batches_of_one_producer_continue_its_sequence() -> None:
    client = Client()

    async def write() -> None:
        log = log_of(client)
        await log.write(0, RECORD)
        await log.write_all(0, [RECORD, RECORD])
        await log.write(0, RECORD)
        await log.write(1, RECORD)

    asyncio.run(write())

    assert headers(client) == [(1, 0), (1, 1), (1, 3), (2, 0)]


@pytest.mark.parametrize(
    "failure", [KafkaError(ErrorCode.request_timed_out), asyncio.CancelledError()]
)
def test_after_a_write_of_unknown_outcome_the_next_one_is_of_a_new_producer(failure) -> None:
    """Else the same sequence number could name two records."""
    client = Client()
    client.failures = [failure]

    async def write() -> None:
        log = log_of(client)
        with pytest.raises(type(failure)):
            await log.write(0, RECORD)
        await log.write(0, RECORD)

    asyncio.run(write())

    assert headers(client) == [(1, 0), (2, 0)]


def test_two_writers_of_a_partition_take_turns() -> None:
    client = Client()

    async def write() -> None:
        log = log_of(client)
        await asyncio.gather(*(log.write(0, RECORD) for _ in range(4)))

    asyncio.run(write())

    assert headers(client) == [(1, 0), (1, 1), (1, 2), (1, 3)]


def test_a_record_at_an_unknown_offset_is_an_error() -> None:
    client = Client()
    client.next_offset = UNKNOWN_OFFSET

    with pytest.raises(JournalError, match="written at an unknown offset"):
        asyncio.run(log_of(client).write(0, RECORD))


def test_a_read_continues_until_its_end() -> None:
    client = Client()
    client.parts = [part(0, 2), part(2, 3)]

    assert asyncio.run(read_all(log_of(client), 1, 4)) == [1, 2, 3]


def test_records_that_retention_takes_during_a_read_are_gone() -> None:
    client = Client()
    client.parts = [part(code=ErrorCode.offset_out_of_range)]
    with pytest.raises(RecordsGone, match="offset 1 went away"):
        asyncio.run(read_all(log_of(client), 1, 4))

    client.parts = [part(3, 2, start=3)]
    with pytest.raises(RecordsGone, match="offset 1 went away"):
        asyncio.run(read_all(log_of(client), 1, 5))


def test_offsets_without_a_record_above_the_start_are_lost() -> None:
    client = Client()
    client.parts = [part(3, 2)]

    with pytest.raises(RecordsLost) as caught:
        asyncio.run(read_all(log_of(client), 1, 5))

    assert (caught.value.begin, caught.value.end) == (1, 3)


def test_a_damaged_batch_is_an_error_of_the_journal() -> None:
    client = Client()
    broken = part(0, 2)
    data = bytearray(broken.records)
    data[-1] ^= 1
    broken.records = memoryview(data)
    client.parts = [broken]

    with pytest.raises(JournalError):
        asyncio.run(read_all(log_of(client), 0, 2))


def test_a_topic_is_opened_once_and_again_when_it_was_created_again() -> None:
    client = Client()

    async def count() -> None:
        log = log_of(client)
        await log.partition_count()
        await log.partition_of(b"k")
        assert client.counts == 1
        client.id = UUID(int=2)
        await log.partition_count()

    asyncio.run(count())

    assert client.counts == 2


def test_configs_that_nobody_may_describe_are_none_and_another_error_is_raised() -> None:
    client = Client()
    client.failures = [KafkaError(ErrorCode.topic_authorization_failed)]
    assert asyncio.run(log_of(client).configs()) == {}

    client.failures = [KafkaError(ErrorCode.request_timed_out)]
    with pytest.raises(KafkaError):
        asyncio.run(log_of(client).configs())
