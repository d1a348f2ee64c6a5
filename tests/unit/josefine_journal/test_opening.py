"""The check of a topic when its journals are opened."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.records.builder import Record
from josefine_journal.actions import Mark, encode_action, partitions_of
from josefine_journal.errors import TopicCompacted, TopicWidened
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.journals import Journal, Journals
from josefine_journal.opening import TAIL_RECORDS
from josefine_journal.records import headers_of
from tests.support.journal_world import MemoryLog


def event(number: int) -> Event:
    return Event(seq_nr=SeqNr(number), payload=Json(number))


def journal(log: MemoryLog, key: str = "alice") -> Journal:
    """Of a process that starts now."""
    return Journals(None, "t", log=log.opened_again()).journal(key)


async def all_of(found: Journal) -> list[int]:
    return [each.event.seq_nr async for each in found.read()]


CALLS = {
    "read": lambda log: all_of(journal(log)),
    "pointer": lambda log: journal(log).pointer(),
    "append": lambda log: journal(log).append([event(1)]),
    "append expecting": lambda log: journal(log).append([event(1)], expected_seq_nr=0),
    "delete": lambda log: journal(log).delete(),
    "purge": lambda log: journal(log).purge(),
    "mark": lambda log: journal(log).mark("m"),
    "replicate": lambda log: log.opened_again().partition_count(),
}


def refused(log: MemoryLog, call: str, error: type[Exception], said: str) -> None:
    before = asyncio.run(log.end_offsets(range(len(log._records))))
    with pytest.raises(error, match=said):
        asyncio.run(CALLS[call](log))
    assert asyncio.run(log.end_offsets(range(len(log._records)))) == before, "it wrote something"


@pytest.mark.parametrize("call", CALLS)
def test_a_widened_topic_is_refused_by_every_call(call: str) -> None:
    log = MemoryLog(1)
    asyncio.run(journal(log).append([event(1)]))
    log.widen(4)

    refused(log, call, TopicWidened, "has 4 partitions, but its journals were written over 1")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_is_refused_by_every_call(call: str, policy: str) -> None:
    log = MemoryLog(1)
    asyncio.run(journal(log).append([event(1)]))
    log.configured["cleanup.policy"] = policy

    refused(log, call, TopicCompacted, f"topic 't' has cleanup.policy={policy}")


def test_a_process_that_was_there_before_goes_on_in_the_old_partitions() -> None:
    async def run() -> None:
        log = MemoryLog(1)
        before = Journals(None, "t", log=log.opened_again()).journal("alice")
        await before.append([event(1)])
        log.widen(4)
        await before.append([event(2)], expected_seq_nr=1)
        assert await all_of(before) == [1, 2]

    asyncio.run(run())


def write(log: MemoryLog, partition: int, *records: Record) -> None:
    async def run() -> None:
        for record in records:
            await log.write(partition, record)

    asyncio.run(run())


def marked(key: str, partitions: int | None = None) -> Record:
    return Record(key.encode(), None, headers_of(Mark(id="m"), (), partitions), 0)


def opened(log: MemoryLog) -> Coroutine[Any, Any, int]:
    return log.opened_again().partition_count()


def test_records_without_a_count_are_asked_by_their_keys() -> None:
    """Those of older programs and of kafka-journal."""
    log = MemoryLog(1)
    write(log, 0, *(marked(f"id-{n}") for n in range(TAIL_RECORDS)))
    assert asyncio.run(opened(log)) == 1
    log.widen(4)
    with pytest.raises(TopicWidened, match="the id of t-0 offset 14 does not belong there"):
        asyncio.run(opened(log))


def test_records_of_others_neither_hide_a_count_nor_are_one() -> None:
    log = MemoryLog(1)
    write(log, 0, marked("id", 1), *(Record(b"x", b"y", (), 0) for _ in range(TAIL_RECORDS - 1)))
    log.widen(2)
    with pytest.raises(TopicWidened, match="as t-0 offset 0 records"):
        asyncio.run(opened(log))


def test_the_count_is_in_every_action_and_a_broken_header_has_none() -> None:
    assert partitions_of(encode_action(Mark(id="m"), 4)) == 4
    assert partitions_of(encode_action(Mark(id="m"))) is None
    for header in (b"{", b"{}", b"[]", b'{"mark": 3}', b'{"mark": {"partitions": "4"}}'):
        assert partitions_of(header) is None


def test_a_writer_that_may_not_read_the_topic_appends_as_before() -> None:
    """It cannot be checked by who has no right to read; its readers check it."""
    log = MemoryLog(1)
    asyncio.run(journal(log).append([event(1)]))
    log.is_write_only = True
    asyncio.run(journal(log).append([event(2)]))
    with pytest.raises(KafkaError):
        asyncio.run(all_of(journal(log)))
    log.is_write_only = False
    assert asyncio.run(all_of(journal(log))) == [1, 2]
