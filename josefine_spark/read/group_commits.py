"""Commits of a stream's offsets to a consumer group, for lag tools and for `startingGroup`.

They are advisory; the checkpoint is authoritative. A failed commit stops nothing and is retried; it
is logged once per kind of error. Rules: an offset is committed when Spark names it as the start of
the next batch, so everything below it was processed; it is committed again from time to time,
because groups expire offsets (`offsets.retention.ms`). `due` decides, time is an argument.
"""

import logging
from collections.abc import Mapping

from josefine_broker.base.ids import TopicPartition
from josefine_spark.options.options import Connection

log = logging.getLogger("josefine.spark")

TIMEOUT_MS = 2_000
"""Timeout of one commit: a batch waits no longer for it."""
RETRY_MS = 10_000
AGAIN_MS = 3_600_000
"""An hour: Kafka expires offsets after seven days by default, and can be configured for less."""


class GroupCommits:
    """The offset commits of one query. It is pickled with the reader; losing its state is safe."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection = connection
        self._group = group
        self._committed: dict[TopicPartition, int] = {}
        self._not_before_ms = 0
        self._again_ms = 0
        self._said: set[str] = set()

    def due(self, ends: Mapping[TopicPartition, int], now_ms: int) -> bool:
        """Whether `ends` should be committed now: they are new, or their last commit is old."""
        if not ends or now_ms < self._not_before_ms:
            return False
        return dict(ends) != self._committed or now_ms >= self._again_ms

    def commit(self, ends: Mapping[TopicPartition, int], now_ms: int) -> None:
        """Commit if due. `ends` names only existing partitions."""
        if not self.due(ends, now_ms):
            return
        from josefine_broker.base.errors import KafkaError
        from josefine_spark.options.connections import client_for

        try:
            client_for(self._connection).commit_offsets(self._group, ends, timeout_ms=TIMEOUT_MS)
        except (KafkaError, OSError) as error:
            self._not_before_ms = now_ms + RETRY_MS
            reason = error.message if isinstance(error, KafkaError) else str(error)
            kind = error.code.name if isinstance(error, KafkaError) else type(error).__name__
            if kind not in self._said:
                self._said.add(kind)
                log.warning("commitGroup %s: offsets not committed: %s", self._group, reason)
            return
        self._committed = dict(ends)
        self._not_before_ms = 0
        self._again_ms = now_ms + AGAIN_MS
