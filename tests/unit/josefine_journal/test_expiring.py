"""Expiry: what an append says of it, and a purge that counts only while nothing followed."""

import asyncio
from datetime import timedelta

import pytest

from josefine_broker.records.builder import Record
from josefine_journal.actions import Append, Purge, decode_action, encode_action
from josefine_journal.describing import described
from josefine_journal.events import Binary, Event, Json, PayloadMetadata, SeqNr
from josefine_journal.expiring import expire
from josefine_journal.journals import Journals
from josefine_journal.records import (
    ActionRecord,
    RecordMetadata,
    action_record,
    encode_append,
    headers_of,
)
from josefine_journal.replicator import Replicator
from tests.support.journal import Model
from tests.support.journal_world import MemoryLog, MemoryStore

DAY = RecordMetadata(payload=PayloadMetadata(expire_after=timedelta(days=1)))
DAY_MS = 86_400_000


def append(
    number: int, metadata: RecordMetadata, *tags: str, payload: object = None
) -> ActionRecord:
    what = payload if isinstance(payload, Binary) else Json(payload)
    event = Event(seq_nr=SeqNr(number), tags=tags, payload=what)
    action, value = encode_append(
        [event], metadata, origin=None, version=None, expected_seq_nr=None
    )
    found = action_record("t", 0, Record(b"id", value, headers_of(action, ()), 7, number))
    assert found is not None
    return found


@pytest.mark.parametrize("payload", [1, Binary(b"\0")], ids=["json", "binary"])
def test_an_append_tells_its_tags_and_when_its_journal_expires(payload: object) -> None:
    both = described(append(1, DAY, "b", "a", payload=payload))
    neither = described(append(2, RecordMetadata(), payload=payload))

    assert (both.tags, both.expire_on_ms) == (("b", "a"), 7 + DAY_MS)
    assert (neither.tags, neither.expire_on_ms) == ((), None)


def test_what_others_write_tells_it_too_and_what_cannot_be_read_says_nothing() -> None:
    plain = append(1, RecordMetadata())
    values = {
        b'{"events":[{"seqNr":1,"tags" : [ "x"]}]}': (("x",), None),
        b'{"events":[{"seqNr":1}],"metadata":{"\\u0065xpireAfter":"1 day"}}': ((), 7 + DAY_MS),
        b'{"events":[{"seqNr":1}],"metadata":{"expireAfter":"soon"}}': ((), None),
        b'{"expireAfter"': ((), None),
    }
    for value, (tags, expires) in values.items():
        record = ActionRecord(
            action=plain.action, topic="t", partition=0, offset=1, timestamp_ms=7, value=value,
            headers=(),
        )  # fmt: skip
        found = described(record)
        assert (found.tags, found.expire_on_ms) == (tags, expires), value


def test_a_purge_with_an_expectation_is_one_that_others_can_read() -> None:
    encoded = encode_action(Purge(origin="o", expected_offset=3))
    assert encoded == b'{"purge":{"origin":"o","expectedOffset":3}}'
    assert decode_action(encoded) == Purge(origin="o", expected_offset=3)


@pytest.mark.parametrize("stored", range(5), ids=lambda n: f"{n} stored")
@pytest.mark.parametrize("between", ["nothing", "append", "purge", "purge and append", "delete"])
def test_expiry_takes_a_journal_only_if_nothing_was_appended_since(
    between: str, stored: int
) -> None:
    """Checklist row 80. Whatever of it is replicated, and however soon."""

    async def run() -> None:
        log, store, model = MemoryLog(1, per_fetch=1), MemoryStore(), Model()
        journals = Journals(None, "t", log=log, store=store)
        journal = journals.journal("id")
        replicator = Replicator(log, store, (0,), batch_bytes_max=1, empty_commit_ms=0)

        async def write(first: int) -> int:
            events = [Event(seq_nr=SeqNr(n), payload=Json(first)) for n in (first, first + 1)]
            model.append(events)
            return (await journal.append(events)).offset

        expired_at = await write(1)
        if "purge" in between:
            await journal.purge()
            model.purge()
        if between == "append":
            await write(3)
        if between == "purge and append":
            await write(1)  # of the same numbers
        if between == "delete":
            await journal.delete(1)
            model.delete(1)
        await journal.purge(expected_offset=expired_at)
        if between in ("nothing", "delete"):
            model.purge()
        for _ in range(stored):
            await replicator.round(0)
        for each in (journal, Journals(None, "t", log=log, store=store).journal("id")):
            assert [event.event async for event in each.read()] == model.read()
            assert await each.pointer() == model.pointer

    asyncio.run(run())


def test_a_deleted_append_keeps_its_expiry_and_loses_its_tags() -> None:
    """Checklist row 80. It is the journal's last."""

    async def run() -> ActionRecord:
        log, store = MemoryLog(1), MemoryStore()
        journal = Journals(None, "t", log=log, store=store, clock_ms=lambda: 7).journal("id")
        await journal.append([Event(seq_nr=SeqNr(1), tags=("x",), payload=Json(1))], DAY)
        await journal.delete()
        await Replicator(log, store, (0,)).round(0)
        return store.newest.rows[0, "id"][0]

    found = asyncio.run(run())
    assert isinstance(found.action, Append)
    assert (found.value, found.tags, found.expire_on_ms) == (None, (), 7 + DAY_MS)


def test_pointer_stays_where_a_duplicate_is_the_last_append_that_is_kept() -> None:
    """Checklist row 65. A delete names what was there, also where the append of it is gone."""

    async def run() -> tuple[int | None, int | None]:
        log, store = MemoryLog(1), MemoryStore()
        for number in (1, 5, 1):
            record = append(number, RecordMetadata())
            assert record.value is not None
            headers = headers_of(record.action, ())
            await log.write(0, Record(b"id", record.value, headers, 0))
        journals = Journals(None, "t", log=log, store=store)
        await journals.journal("id").delete()
        before = await journals.journal("id").pointer()
        await Replicator(log, store, (0,)).round(0)
        fresh = Journals(None, "t", log=log, store=store)
        return before, await fresh.journal("id").pointer()

    assert asyncio.run(run()) == (5, 5)


def test_the_job_purges_each_partitions_expired_journals_and_none_that_was_appended_to() -> None:
    async def job() -> tuple[int, list[list[int]]]:
        log, store = MemoryLog(2), MemoryStore()
        journals = Journals(None, "t", log=log, store=store)
        first, alive = Event(seq_nr=SeqNr(1), payload=Json(1)), journals.journal("alive")
        ends = {key: await journals.journal(key).append([first]) for key in ("a", "b", "alive")}
        await alive.append([Event(seq_nr=SeqNr(2), payload=Json(2))])

        def over(partition: int):
            return iter([(key, at.offset) for key, at in ends.items() if at.partition == partition])

        count = await expire(journals, over, (0, 1))
        read = [[each.event.seq_nr async for each in journals.journal(key).read()] for key in ends]
        return count, read

    assert asyncio.run(job()) == (3, [[], [], [1, 2]])
