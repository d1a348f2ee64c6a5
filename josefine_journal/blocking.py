"""The blocking API of a topic's journals, for code without an event loop.

Rules: one thread at a time; an event loop of its own runs during each call, so calls are not
possible inside another event loop; a stream that is not read to its end is closed with its
generator.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from josefine_broker.client.io_asyncio import AsyncClient
from josefine_broker.client.security import PLAINTEXT, Security
from josefine_broker.client.session import DEFAULT_POLICY, Policy
from josefine_journal.events import SEQ_NR_MAX, SEQ_NR_MIN, Event, SeqNr
from josefine_journal.journals import Journal, Journals
from josefine_journal.notifying import WAIT_S
from josefine_journal.records import EventRecord, Headers, PartitionOffset, RecordMetadata


class BlockingJournals:
    """The journals of a topic, with a client of its own; `close` it, or use a `with` statement."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        policy: Policy = DEFAULT_POLICY,
        security: Security = PLAINTEXT,
        **options: Any,
    ) -> None:
        """`options` are those of `Journals`. Raises ValueError for a malformed bootstrap and for
        unusable files of `security`."""
        self._runner = asyncio.Runner()
        self._client = AsyncClient(
            bootstrap, client_id="josefine-journal", policy=policy, security=security
        )
        self._journals = Journals(self._client, topic, **options)

    def __enter__(self) -> "BlockingJournals":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()

    def replicated(self, place: PartitionOffset, timeout_s: float = WAIT_S) -> None:
        """Wait until the store has that offset of the topic; JournalError after the timeout."""
        self._runner.run(self._journals.replicated(place, timeout_s))

    def retention_warning(self) -> str | None:
        """A warning if the topic's retention will delete records that no store has; else None."""
        return self._runner.run(self._journals.retention_warning())

    def journal(self, key: str) -> "BlockingJournal":
        return BlockingJournal(self._runner, self._journals.journal(key), self)


class BlockingJournal:
    """The methods of `Journal`, blocking; they are documented there."""

    def __init__(
        self, runner: asyncio.Runner, journal: Journal, journals: BlockingJournals
    ) -> None:
        self._runner = runner
        self._journal = journal
        self.retention_warning = journals.retention_warning

    def append(
        self,
        events: Sequence[Event],
        metadata: RecordMetadata | None = None,
        headers: Headers = (),
        expected_seq_nr: int | None = None,
    ) -> PartitionOffset:
        return self._runner.run(self._journal.append(events, metadata, headers, expected_seq_nr))

    def read(self, from_seq_nr: int = SEQ_NR_MIN) -> Iterator[EventRecord]:
        chunks = self._journal.chunks(from_seq_nr)
        try:
            while chunk := self._runner.run(_next(chunks)):
                yield from chunk
        finally:
            self._runner.run(chunks.aclose())

    def pointer(self) -> SeqNr | None:
        return self._runner.run(self._journal.pointer())

    def delete(self, to: int = SEQ_NR_MAX) -> PartitionOffset | None:
        return self._runner.run(self._journal.delete(to))

    def purge(self, *, expected_offset: int | None = None) -> PartitionOffset:
        return self._runner.run(self._journal.purge(expected_offset=expected_offset))

    def mark(self, name: str) -> PartitionOffset:
        return self._runner.run(self._journal.mark(name))


async def _next(chunks: AsyncIterator[list[EventRecord]]) -> list[EventRecord]:
    """The next chunk; empty at the end, as no chunk is empty."""
    return await anext(chunks, [])
