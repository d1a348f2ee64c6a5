"""What a stream's topics have now, asked with as few requests as the answer needs.

Rules: what a batch is planned from is never older than the question: where ends moved, metadata are
asked for after the ends were listed, so that the ids seen are those that the ends are of; only a
stream that stands at the end may go on with metadata of up to `METADATA_AGE_MS`. So an idle query
sends one ListOffsets per look, and a partition or topic that is new is seen so much later.
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
"""A topic or partition that was known is gone: metadata say which."""


class Looks:
    """The looks of one reader at its topics, the last answer kept."""

    def __init__(self, subscription: Subscription, *, read_committed: bool) -> None:
        self._subscription = subscription
        self._read_committed = read_committed
        self._found: Found | None = None
        self._found_ms = 0
        self._first: dict[tuple[str, TopicPartition], int] = {}
        self.latest: TopicOffsets | None = None
        """What the last look saw."""

    def look(
        self, client: "BlockingClient", now_ms: int, reached: TopicOffsets | None = None
    ) -> TopicOffsets:
        """Latest offsets and ids of every partition subscribed to. When a stream has `reached`
        what the last look saw, the same ends again mean that there is nothing to read."""
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
        """Where each partition began when it was first seen."""
        from josefine_spark.read.discovery import earliest_offsets

        keys = {tp: (found.topic_ids[tp.topic], tp) for tp in found.partitions}
        new = [tp for tp, key in keys.items() if key not in self._first]
        for tp, offset in earliest_offsets(client, new).items():
            self._first[keys[tp]] = offset
        return {tp: self._first[key] for tp, key in keys.items()}


def _same(reached: TopicOffsets, seen: TopicOffsets) -> bool:
    return reached.ends == seen.ends and reached.topic_ids == seen.topic_ids
