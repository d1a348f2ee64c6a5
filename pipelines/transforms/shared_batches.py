"""Shared batches: records read and decoded once for all sinks that reach the same offset range.

Each sink keeps its own query, checkpoint, chain and transforms.

Rules: sinks share the rows of one offset range in a topic of one id, so each gets the rows that it
would have read itself. A sink waits only for another one that is making these rows. A sink that
cannot share reads alone. Rows are made for others only if one of them may reach the batch's start
offsets, and the number of batches cached for slower sinks is bounded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.exactly_once.offset_chain import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Persisted(Protocol):
    """Rows that are cached until `unpersist`."""

    def unpersist(self) -> Any: ...


Rows = TypeVar("Rows", bound=Persisted)

KEPT_MAX = 2
"""Cached batches of a source without a current user, for slower sinks. Spark keeps them in memory,
or on disk if memory is short."""

Place = tuple[tuple[TopicPartition, int, int, str], ...]
"""The key of a batch's records: start offset, end offset and topic id of each partition."""


@dataclass(slots=True, kw_only=True)
class Share(Generic[Rows]):
    """One shared batch. Mutable, under the lock of its `SharedRows`."""

    batch: Batch
    users: set[str]
    awaited: set[str]
    """Sinks that may still reach this batch."""
    rows: Rows | None = None
    is_made: bool = False
    """Whether the rows are made; if `rows` is None then, making them has failed."""


@dataclass(slots=True)
class Shares(Generic[Rows]):
    """The sinks' positions and the shared batches. Mutable; decides, without Spark or threads."""

    stands_at: dict[str, ByPartition | None] = field(default_factory=dict)
    """Sink → start offsets of its next batch; None: its source finds them."""
    there: dict[Place, Share[Rows]] = field(default_factory=dict)

    def stands(self, sink: str, at: ByPartition | None) -> None:
        """A sink starts to read at these offsets."""
        self.leaves(sink)
        self.stands_at[sink] = at

    def leaves(self, sink: str) -> None:
        """A sink stops reading, for now or for good."""
        self.stands_at.pop(sink, None)
        self.gives_back(sink)
        self._awaits_not(sink)

    def comes_to(self, sink: str, batch: Batch) -> tuple[Share[Rows] | None, bool]:
        """The share of a sink's batch, and whether the sink has to make its rows. None: the sink
        reads alone."""
        place = place_of(batch)
        companions = {one for one in self.stands_at if one != sink and self._may_come(one, batch)}
        self._goes_on(sink, batch.end.ends)
        share = self.there.get(place) if place else None
        if share is not None:
            share.users.add(sink)
            return share, False
        if place is None or not companions:
            return None, False
        share = Share(batch=batch, users={sink}, awaited=companions)
        self.there[place] = share
        return share, True

    def gives_back(self, sink: str) -> None:
        """A sink needs the rows of its batch no more."""
        for share in self.there.values():
            share.users.discard(sink)

    def unwanted(self) -> list[Share[Rows]]:
        """Remove and return the batches that no sink uses or may reach.

        A sink that is slower than `KEPT_MAX` batches is not awaited any more: it would always reach
        a batch just after its removal."""
        idle = [share for share in self.there.values() if not share.users]
        for share in idle[: max(0, len(idle) - KEPT_MAX)]:
            for late in list(share.awaited):
                self._awaits_not(late)
        gone = [p for p, share in self.there.items() if not (share.users or share.awaited)]
        return [self.there.pop(place) for place in gone]

    def _awaits_not(self, sink: str) -> None:
        for share in self.there.values():
            share.awaited.discard(sink)

    def _goes_on(self, sink: str, at: ByPartition) -> None:
        """Move a sink to these offsets; it may still reach batches that start there or later."""
        self.stands_at[sink] = at
        reaches = [at]
        for share in self.there.values():
            share.users.discard(sink)
            if any(_begins_at(share.batch, ends) for ends in reaches):
                reaches.append(share.batch.end.ends)
            else:
                share.awaited.discard(sink)

    def _may_come(self, sink: str, batch: Batch) -> bool:
        """Whether a sink may reach this batch, by its position and the batches it is awaited at."""
        at = self.stands_at[sink]
        if at is None or _begins_at(batch, at):
            return True
        awaited = [share.batch.end.ends for share in self.there.values() if sink in share.awaited]
        return any(_begins_at(batch, ends) for ends in awaited)


def place_of(batch: Batch) -> Place | None:
    """The key of a batch; None if a partition has no known start offset."""
    found = []
    for partition, end in sorted(batch.end.ends.items()):
        start = batch.starts.get(partition)
        if start is None:
            return None
        found.append((partition, start, end, batch.end.topic_ids.get(partition[0], "")))
    return tuple(found)


def _begins_at(batch: Batch, ends: ByPartition) -> bool:
    starts = {partition: batch.starts.get(partition) for partition in batch.end.ends}
    return all(ends.get(partition, start) == start for partition, start in starts.items())


class SharedRows(Generic[Rows]):
    """The shared rows of one source in one run. Thread-safe: its sinks' threads share it."""

    def __init__(self) -> None:
        self._shares: Shares[Rows] = Shares()
        self._changed = threading.Condition()

    def stands(self, sink: str, at: ByPartition | None) -> None:
        """See the method of `Shares`; likewise `leaves` and `give_back`."""
        with self._changed:
            self._shares.stands(sink, at)
            self._let_go()

    def leaves(self, sink: str) -> None:
        with self._changed:
            self._shares.leaves(sink)
            self._let_go()

    def take(self, sink: str, batch: Batch, make: Callable[[], Rows]) -> Rows | None:
        """The cached rows, until they are given back; None: the sink reads alone. `make`: makes
        cached rows; its error is raised in the sink that calls it, the others read alone."""
        with self._changed:
            share, makes = self._shares.comes_to(sink, batch)
            self._let_go()
        if share is None:
            return None
        if makes:
            try:
                share.rows = make()
            finally:
                with self._changed:
                    share.is_made = True
                    if share.rows is None:
                        self._forget(share)
                    self._changed.notify_all()
            return share.rows
        with self._changed:
            self._changed.wait_for(lambda: share.is_made)
        return share.rows

    def give_back(self, sink: str) -> None:
        with self._changed:
            self._shares.gives_back(sink)
            self._let_go()

    def _forget(self, failed: Share[Rows]) -> None:
        there = self._shares.there
        self._shares.there = {p: share for p, share in there.items() if share is not failed}

    def _let_go(self) -> None:
        for share in self._shares.unwanted():
            if share.rows is not None:
                share.rows.unpersist()


def in_session(rows: DataFrame, session: SparkSession) -> DataFrame:
    """Rows of another session of the same application; both sessions share their cache."""
    from pyspark.sql.classic.dataframe import DataFrame as OfThisProcess

    if rows.sparkSession is session:
        return rows
    jvm: Any = session._jvm
    plan = rows._jdf.queryExecution().analyzed()
    made = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
    return OfThisProcess(made, session)
