"""Dead letters: the topic that takes records of a journal's topic which nobody can read.

Rule: a letter is the record as it was, with one header more that says where it stood and why it is
here; a replicator that died meanwhile writes it again, and the place tells such copies.
"""

from collections.abc import Awaitable, Callable

from josefine_broker.client.io_asyncio import AsyncClient
from josefine_broker.records.builder import Record
from josefine_journal.json_text import compact
from josefine_journal.taking import DeadLetter
from josefine_journal.topic import TopicLog

HEADER = "journal.dead-letter"
SUFFIX = ".dead-letters"
"""Of the topic's name, unless another one is asked for. No topic of that name is replicated."""


def letter(dead: DeadLetter) -> Record:
    """The record that is written."""
    record = dead.record
    place = {"topic": dead.topic, "partition": dead.partition, "offset": record.offset}
    header = compact({**place, "error": str(dead.error)}).encode()
    return record._replace(headers=(*record.headers, (HEADER, header)))


def burying(client: AsyncClient, topic: str) -> Callable[[DeadLetter], Awaitable[None]]:
    """What writes letters to that topic, which must exist."""
    log = TopicLog(client, topic, holds_journals=False)

    async def bury(dead: DeadLetter) -> None:
        await log.write(await log.partition_of(dead.record.key or b""), letter(dead))

    return bury
