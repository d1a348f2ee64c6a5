"""The dead-letter topic for unreadable records of a topic of journals.

Rule: a dead letter is the original record with one more header, which has its place and the reason.
A replicator that crashed in between writes it again; such copies have the same place.
"""

from collections.abc import Awaitable, Callable

from josefine_broker.client.io_asyncio import AsyncClient
from josefine_broker.records.builder import Record
from josefine_journal.json_text import compact
from josefine_journal.taking import DeadLetter
from josefine_journal.topic import TopicLog

HEADER = "journal.dead-letter"
SUFFIX = ".dead-letters"
"""Suffix of the default topic name. No topic with this suffix is replicated."""


def letter(dead: DeadLetter) -> Record:
    """The record of a dead letter."""
    record = dead.record
    place = {"topic": dead.topic, "partition": dead.partition, "offset": record.offset}
    header = compact({**place, "error": str(dead.error)}).encode()
    return record._replace(headers=(*record.headers, (HEADER, header)))


def burying(client: AsyncClient, topic: str) -> Callable[[DeadLetter], Awaitable[None]]:
    """A function that writes a dead letter to that topic, which must exist."""
    log = TopicLog(client, topic, holds_journals=False)

    async def bury(dead: DeadLetter) -> None:
        await log.write(await log.partition_of(dead.record.key or b""), letter(dead))

    return bury
