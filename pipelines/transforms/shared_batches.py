"""A batch's records, read and decoded once for all sinks of a source that come to the same offsets.

Each sink keeps its query, its checkpoint and its chain, and what it does with the rows is its own.

Rules: what is shared is what a topic of one id has between two offsets, so whoever takes it has
what it would have read itself; nobody waits but for a sink that is making these very rows; who
cannot have them reads for itself; nothing is made for others unless one stands where it begins,
and what is kept for those that lag behind is bounded.
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
    """What is kept in memory until then."""

    def unpersist(self) -> Any: ...


Rows = TypeVar("Rows", bound=Persisted)

KEPT_MAX = 2
"""Batches of a source that nobody uses and others may still come to. Spark keeps them in memory, or
on disk where that is short."""

Place = tuple[tuple[TopicPartition, int, int, str], ...]
"""What tells a batch's records: of each partition where they start, where they end, the topic's
id."""


@dataclass(slots=True, kw_only=True)
class Share(Generic[Rows]):
    """One batch. Mutable, under the lock of whoever has it."""

    batch: Batch
    users: set[str]
    awaited: set[str]
    """Sinks that may still come to it."""
    rows: Rows | None = None
    is_made: bool = False
    """Whether nobody has to wait for it any more; without rows, making them has failed."""


@dataclass(slots=True)
class Shares(Generic[Rows]):
    """Who stands where and what is there. Mutable; decides, and knows neither Spark nor threads."""

    stands_at: dict[str, ByPartition | None] = field(default_factory=dict)
    """Where the next batch of each sink begins; None: its source finds out."""
    there: dict[Place, Share[Rows]] = field(default_factory=dict)

    def stands(self, sink: str, at: ByPartition | None) -> None:
        """A sink is about to read, from there on."""
        self.leaves(sink)
        self.stands_at[sink] = at

    def leaves(self, sink: str) -> None:
        """It reads no more, for now or for good."""
        self.stands_at.pop(sink, None)
        self.gives_back(sink)
        self._awaits_not(sink)

    def comes_to(self, sink: str, batch: Batch) -> tuple[Share[Rows] | None, bool]:
        """What it shares of this batch, and whether it is to make it; None: it reads for itself."""
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
        """It needs the rows of its batch no more."""
        for share in self.there.values():
            share.users.discard(sink)

    def unwanted(self) -> list[Share[Rows]]:
        """What nobody uses and nobody may come to; it is not there any more. Who is further behind
        than what may be kept is awaited no more: it would come to what is gone, time and again."""
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
        """It may still come to what begins there, or behind that."""
        self.stands_at[sink] = at
        reaches = [at]
        for share in self.there.values():
            share.users.discard(sink)
            if any(_begins_at(share.batch, ends) for ends in reaches):
                reaches.append(share.batch.end.ends)
            else:
                share.awaited.discard(sink)

    def _may_come(self, sink: str, batch: Batch) -> bool:
        """Whether this may be a later batch of a sink, as far as can be seen."""
        at = self.stands_at[sink]
        if at is None or _begins_at(batch, at):
            return True
        awaited = [share.batch.end.ends for share in self.there.values() if sink in share.awaited]
        return any(_begins_at(batch, ends) for ends in awaited)


def place_of(batch: Batch) -> Place | None:
    """None where something does not say where it starts."""
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
    """Of one source in one run; the threads of its sinks share it."""

    def __init__(self) -> None:
        self._shares: Shares[Rows] = Shares()
        self._changed = threading.Condition()

    def stands(self, sink: str, at: ByPartition | None) -> None:
        """See `Shares`; so the others."""
        with self._changed:
            self._shares.stands(sink, at)
            self._let_go()

    def leaves(self, sink: str) -> None:
        with self._changed:
            self._shares.leaves(sink)
            self._let_go()

    def take(self, sink: str, batch: Batch, make: Callable[[], Rows]) -> Rows | None:
        """The rows, until they are given back; None: read for yourself. `make`: persisted ones.
        Raises what `make` does, to whom it makes them for."""
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
    """Rows of another session of the same application; what is kept of them is kept for both."""
    from pyspark.sql.classic.dataframe import DataFrame as OfThisProcess

    if rows.sparkSession is session:
        return rows
    jvm: Any = session._jvm
    plan = rows._jdf.queryExecution().analyzed()
    made = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
    return OfThisProcess(made, session)
