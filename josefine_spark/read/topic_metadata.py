"""The current end offsets and ids of a stream's topics, requested with as few requests as possible.

Rules: a batch is never planned from old metadata: when ends have moved, metadata is requested after
the ends were listed, so that the topic ids are those of the ends. Only a stream that has read
everything may use metadata of up to `METADATA_AGE_MS`. So an idle query sends one ListOffsets per
call, and sees a new partition or topic at most that much later.
"""

from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from josefine_spark.options.options import Subscription

if TYPE_CHECKING:
    from josefine_broker.client.io_blocking import BlockingClient
    from josefine_spark.read.discovery import Found

METADATA_AGE_MS = 1_000

MISSING = {ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id}
"""A known topic or partition no longer exists: the metadata show which one."""


class MetadataCache:
    """The metadata requests of one reader, with a cache of the last answer. Mutable."""

    def __init__(self, subscription: Subscription, *, read_committed: bool) -> None:
        self._subscription = subscription
        self._read_committed = read_committed
        self._found: Found | None = None
        self._found_ms = 0
        self._first: dict[tuple[str, TopicPartition], int] = {}
        self.latest: TopicOffsets | None = None
        """The result of the last `look`."""

    def look(
        self, client: "BlockingClient", now_ms: int, reached: TopicOffsets | None = None
    ) -> TopicOffsets:
        """End offsets and ids of every subscribed partition. If a stream has `reached` the result
        of the last call and the ends are unchanged, there is nothing to read."""
        from josefine_spark.read.discovery import discover

        ends = None
        last = self.latest
        young = now_ms - self._found_ms < METADATA_AGE_MS
        if last is not None and reached is not None and young and _same(reached, last):
            ends = self._ends_of_known(client)
            if ends == last.ends:
                return last
        found = discover(client, self._subscription, must_exist=False)
        if ends is None or found != self._found:
            ends = self._ends(client, found)
        self._found, self._found_ms = found, now_ms
        self.latest = TopicOffsets(
            ends=ends, first=self._firsts(client, found), topic_ids=found.topic_ids
        )
        return self.latest

    def _ends_of_known(self, client: "BlockingClient") -> dict[TopicPartition, int] | None:
        assert self._found is not None
        try:
            return self._ends(client, self._found)
        except KafkaError as error:
            if error.code not in MISSING:
                raise
            return None

    def _ends(self, client: "BlockingClient", found: "Found") -> dict[TopicPartition, int]:
        from josefine_spark.read.discovery import latest_offsets

        return latest_offsets(client, found.partitions, read_committed=self._read_committed)

    def _firsts(self, client: "BlockingClient", found: "Found") -> dict[TopicPartition, int]:
        """The earliest offset of each partition at the time when it was first seen."""
        from josefine_spark.read.discovery import earliest_offsets

        keys = {tp: (found.topic_ids[tp.topic], tp) for tp in found.partitions}
        new = [tp for tp, key in keys.items() if key not in self._first]
        for tp, offset in earliest_offsets(client, new).items():
            self._first[keys[tp]] = offset
        return {tp: self._first[key] for tp, key in keys.items()}


def _same(reached: TopicOffsets, seen: TopicOffsets) -> bool:
    return reached.ends == seen.ends and reached.topic_ids == seen.topic_ids
