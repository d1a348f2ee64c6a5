"""A stream's offsets committed to a consumer group: for lag tools and for `startingGroup`.

Advice, never the truth, which is the checkpoint: a group that does not take them stops nothing and
is tried again; one line per kind of error says so. Rules: an offset is committed when Spark names
it as the start of what comes next, so everything below it was processed; it is committed again now
and then, because groups forget (`offsets.retention.ms`). `due` decides, time is an argument.
"""

import logging
from collections.abc import Mapping

from josefine_broker.base.ids import TopicPartition
from josefine_spark.options.options import Connection

log = logging.getLogger("josefine.spark")

TIMEOUT_MS = 2_000
"""Of one commit: a batch waits no longer for advice."""
RETRY_MS = 10_000
AGAIN_MS = 3_600_000
"""An hour: Kafka forgets offsets after seven days, and can be told to after less."""


class GroupCommits:
    """Who commits what for one query. Pickled with the reader, it forgets nothing that matters."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection = connection
        self._group = group
        self._committed: dict[TopicPartition, int] = {}
        self._not_before_ms = 0
        self._again_ms = 0
        self._said: set[str] = set()

    def due(self, ends: Mapping[TopicPartition, int], now_ms: int) -> bool:
        """Whether `ends` should be committed now: new, or not said for long."""
        if not ends or now_ms < self._not_before_ms:
            return False
        return dict(ends) != self._committed or now_ms >= self._again_ms

    def commit(self, ends: Mapping[TopicPartition, int], now_ms: int) -> None:
        """Commit if due. `ends` names only partitions that there are."""
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
