"""The archives of a cluster as files that this process reads by itself: for Spark's tasks.

`josefine_spark` loads this module by its name when a read asks for it, so its classes keep their
names and arguments. Thread-safe. Every failure is a KafkaError with a sentence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from deltalake.exceptions import DeltaError

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.archive.config import archive_topic
from josefine_lake.archive.reader import NO_OFFSET, ArchiveTable
from josefine_lake.archive.serve import check_topic
from josefine_lake.writer.discovery import discover
from josefine_lake.writer.verdicts import StoppedTable

Result = TypeVar("Result")


class ArchiveFiles:
    """The archive of one topic."""

    def __init__(self, table: ArchiveTable, topic_id: str) -> None:
        self._table = table
        self._topic_id = topic_id
        self._lock = threading.Lock()

    def start(self, partition: int) -> int | None:
        """The first archived offset of a partition; None without any. Raises KafkaError."""

        def start() -> int | None:
            found = self._table.start(partition)
            return None if found == NO_OFFSET else found

        return self._looked(lambda: self._table.start(partition) == NO_OFFSET, start)

    def at_time(self, partition: int, time_ms: int, end: int) -> int | None:
        """The first archived offset below `end` that is not older. Raises KafkaError."""

        def at_time() -> int | None:
            found = self._table.at_time(partition, time_ms, end)
            return None if found is None else found[0]

        return self._looked(lambda: self._table.end(partition) < end, at_time)

    def rows(self, partition: int, offset: int, end: int) -> tuple[Any, int]:
        """(an Arrow table of some records from `offset` on, in their order; the end of the offsets
        that they are all of). That end is `offset` where the archive does not have it. Raises
        KafkaError."""

        def rows() -> tuple[Any, int]:
            start = self._table.start(partition)
            until = min(end, self._table.end(partition))
            if start == NO_OFFSET or offset < start or offset >= until:
                return None, offset
            return self._table.rows(partition, offset, until)

        return self._looked(lambda: self._table.end(partition) < end, rows)

    def _looked(self, is_old: Callable[[], bool], answer: Callable[[], Result]) -> Result:
        """The answer after a look at the newest version, if the last look `is_old`."""
        with self._lock:
            try:
                if is_old():
                    self._table.look()
                try:
                    return self._checked(answer)
                except FileNotFoundError:
                    # A compaction has replaced the file since the last look, and VACUUM removed it.
                    self._table.look()
                    return self._checked(answer)
            except (LookupError, OSError, DeltaError, CorruptData, StoppedTable) as error:
                where = self._table.archive.location
                why = f"the archive {where} cannot be read: {error}"
                raise KafkaError(ErrorCode.kafka_storage_error, why) from error

    def _checked(self, answer: Callable[[], Result]) -> Result:
        check_topic(self._table, self._topic_id)
        return answer()


def open_archive(
    client: BlockingClient, topic: str, topic_id: str, env: Mapping[str, str]
) -> ArchiveFiles | None:
    """The archive of a topic; None: it has none. Raises KafkaError."""
    found = discover(client, [topic], parse=archive_topic)
    if topic in found.wrong:
        raise KafkaError(ErrorCode.invalid_config, f"topic `{topic}`: {found.wrong[topic]}")
    if topic not in found.tables:
        return None
    try:
        return ArchiveFiles(ArchiveTable(found.tables[topic], env), topic_id)
    except StoppedTable as error:
        raise KafkaError(ErrorCode.kafka_storage_error, str(error)) from error
