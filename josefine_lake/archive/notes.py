"""The offsets that an archive has reached, and the writer's word for them, in the group that
brokers read before retention deletes a segment.

Rules: offsets are committed after the Delta commit that has them, never below one that was
committed before; each commit has a new `look`, made only after the archive was found whole.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from josefine_broker.base.archive_note import ARCHIVE_GROUP, ArchivedRecord, ArchiveNote
from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import groups
from josefine_broker.client.groups import Committed
from josefine_broker.client.io_blocking import BlockingClient
from josefine_spark.base.topic_offsets import ByPartition

COMMIT_MS_MAX = 5_000


class ArchiveNotes:
    """One archive's. Mutable: what was committed last."""

    def __init__(self, client: BlockingClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self.topic_id = ""
        self.table_id = ""
        self.last: Mapping[TopicPartition, ArchivedRecord] = {}
        """The newest archived record of each partition, where it is known."""
        self.read: dict[TopicPartition, ArchivedRecord] = {}
        """The newest record that was read, which the next commit archives."""

    def committed(self) -> dict[TopicPartition, Committed]:
        """The group's offsets of the topic. Raises KafkaError."""
        partitions = self._client.metadata([self._topic]).partitions_of(self._topic)
        return self._client.run(
            lambda s, t, d: groups.committed(s, ARCHIVE_GROUP, partitions, t, d)
        )

    def offsets(self) -> ByPartition:
        """Raises KafkaError."""
        return {tp: each.offset for tp, each in self.committed().items()}

    def commit(self, offsets: Mapping[TopicPartition, int], stopped: str = "") -> None:
        """After a look at the archive; it may fail silently: brokers wait longer then."""
        look_ms = time.time_ns() // 1_000_000
        notes = {
            tp: ArchiveNote(
                topic_id=self.topic_id,
                table_id=self.table_id,
                look=look_ms,
                stopped=stopped,
                last=self.last.get(tp),
            ).text()
            for tp in offsets
        }
        if offsets:
            with suppress(KafkaError):
                self._client.commit_offsets(
                    ARCHIVE_GROUP, offsets, metadata=notes, timeout_ms=COMMIT_MS_MAX
                )

    def stop(self, why: str) -> None:
        """Report that the archive may not be relied on; what it had stays the witness."""
        with suppress(KafkaError):
            self.commit(self.offsets(), why)
