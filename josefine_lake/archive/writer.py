"""The writer of one archive: a table's writer that also reports how far retention may go.

Rules: the archive is looked at every few seconds, also while nothing is written: its log must be
the one that this writer has seen or written. What brokers hear is what the archive's own newest
commit has. They hear of a stop with its reason, except one that passes by itself. A record of a new
leader follows only if the log still has the newest archived one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from josefine_broker.base.archive_note import ArchivedRecord
from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.archive import newest
from josefine_lake.archive.notes import ArchiveNotes
from josefine_lake.archive.partition_sizes import PartitionSizes
from josefine_lake.archive.retention import CHECK_MS, Retention, delete_expired
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.report.table_stats import TableStats
from josefine_lake.writer import verdicts
from josefine_lake.writer.columns import ARCHIVE_SCHEMA
from josefine_lake.writer.delta_table import ChainedTable
from josefine_lake.writer.start import Ready, Topic
from josefine_lake.writer.state import TableState
from josefine_lake.writer.table_writer import TableWriter, World
from josefine_lake.writer.topic_reader import OutOfRangeError, Read, TopicReader
from josefine_lake.writer.verdicts import StoppedTable
from josefine_lake.writer.worlds import world_of
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.exactly_once.offset_chain import Verdict

EARLIEST_LOCAL = -4
"""The first offset that brokers have themselves (KIP-405)."""
PASSING = {Verdict.LOST_RACE, Verdict.TOPIC_SHORTER}
"""Stops after which this writer, or the one that won, continues by itself."""


class ArchiveReader(TopicReader):
    """Reads every column, also the leader epoch, and only what brokers have themselves."""

    columns = tuple(ARCHIVE_SCHEMA.names)
    earliest = EARLIEST_LOCAL

    def _ends(
        self, records: Any, position: int, next_offset: int
    ) -> tuple[ArchivedRecord, ArchivedRecord] | None:
        return newest.ends_of(records, position, next_offset)


class ArchiveWriter(TableWriter):
    """See the module."""

    def __init__(
        self,
        table: TableTopic,
        world: World,
        notes: ArchiveNotes,
        retention: Callable[[], Retention],
    ) -> None:
        """`retention`: of the whole topic now."""
        super().__init__(table, world)
        self._notes = notes
        self._retention = retention
        self._sizes = PartitionSizes()
        self._expire_from_ms = 0

    def run(
        self,
        stopping: Callable[[], bool],
        *,
        once: bool = False,
        trust: bool = False,
        renames: Mapping[str, str] | None = None,
    ) -> None:
        """As a table's writer does; brokers hear of a stop."""
        try:
            super().run(stopping, once=once, trust=trust, renames=renames)
        except StoppedTable as error:
            if error.stopped.verdict not in PASSING:
                self._notes.stop(error.stopped.what)
            raise

    def _started(self, topic: Topic, trust: bool) -> TableState:
        self._notes.topic_id = topic.id
        state = super()._started(topic, trust)
        self._report(state)
        return state

    def _accept(self, ready: Ready, topic: Topic, *, trust: bool) -> None:
        if ready.tip is None and (others := self._world.store.others()):
            names = ", ".join(str(each.name) for each in others)
            raise verdicts.stopped(
                self._table,
                f"the table has the rows of {names}: an archive has a table of its own",
                *verdicts.move(self._table),
            )
        said = ready.tip.said if ready.tip else {}
        # Trusted: the archive keeps what it has, whatever the log has at these offsets.
        found = {} if trust else newest.newest_of(said, topic.name)
        for tp, record in found.items():
            if tp in topic.bounds and topic.bounds[tp].earliest <= record.offset:
                self._require(tp, record)
        self._notes.read = dict(found)
        self._notes.last = dict(found)

    def _facts(self) -> Mapping[str, Any]:
        return {**super()._facts(), **newest.fact_of(self._notes.read)}

    def _take(self, state: TableState, read: Read) -> None:
        if found := newest.records_in(read):
            known = self._notes.read.get(read.partition)
            if known is not None and newest.has_new_leader(known, found[0]):
                bounds = self._world.log.look().bounds
                if bounds[read.partition].earliest <= known.offset:
                    self._require(read.partition, known)
            self._notes.read[read.partition] = found[1]
        super()._take(state, read)

    def _require(self, tp: TopicPartition, record: ArchivedRecord) -> None:
        """Raise StoppedTable unless the log has this record, OutOfRangeError if nobody knows."""
        reads = self._world.log.fetch({tp: record.offset}, 0)
        is_there = newest.is_there(reads, tp, record)
        if is_there is None:
            raise OutOfRangeError(f"{tp}: offset {record.offset} cannot be read again")
        if not is_there:
            topic = self._table.topic
            raise verdicts.stopped(
                self._table,
                f"{tp}: the log has another record at offset {record.offset} than the archive: "
                "brokers have lost archived records (an unclean election, or an old copy)",
                f"josefine archive verify --topic {topic}  # what differs",
                f"josefine archive run --topic {topic} --trust archive --once  # keep what the "
                "archive has, without the log's other records below its end",
            )

    def _look_again(self, state: TableState, now_ms: int) -> None:
        super()._look_again(state, now_ms)
        self._report(state)
        if now_ms >= self._expire_from_ms:
            self._expire_from_ms = now_ms + CHECK_MS
            self._expire()

    def _expire(self) -> None:
        """Delete what is older than the topic's retention. Raises StoppedError."""
        world = self._world
        assert isinstance(world.store, ChainedTable)
        try:
            delete_expired(world.store, self._retention(), world.wall_ms(), self._sizes)
        except (DeltaError, KafkaError, OSError, pa.ArrowInvalid) as error:
            # Nothing was deleted: the next records must not wait for this, nor for a damaged file.
            world.stats.upkeep_failed(str(error))

    def _report(self, state: TableState) -> None:
        """Look at the archive, and commit what it has. Raises StoppedError."""
        store = self._world.store
        assert isinstance(store, ChainedTable)
        self._notes.table_id = store.identity()
        self._world.stats.looked_ms = self._world.wall_ms()
        ends = state.tip.reached.ends if state.tip else {}
        self._notes.commit({tp: end for tp, end in ends.items() if tp in state.positions})


def archive_writer(
    table: TableTopic,
    client: BlockingClient,
    env: Mapping[str, str],
    stats: TableStats | None = None,
) -> ArchiveWriter:
    """The writer of an archive in the real world. Raises StoppedTable, KafkaError."""
    notes = ArchiveNotes(client, table.topic)

    def reached(offsets: ByPartition) -> None:
        """The archive has these: its log is as this writer has seen it."""
        notes.last = dict(notes.read)
        notes.commit(offsets)

    world = replace(
        world_of(table, client, env, reached, stats),
        log=ArchiveReader(client, table.topic),
        committed=notes.offsets,
        note_stop=lambda tp, offset, why: None,
    )

    def retention() -> Retention:
        # Asked for each time: a bound that was raised meanwhile must count.
        configs = client.describe_configs([table.topic])[table.topic]
        return Retention(*(_bound(configs[f"retention.{name}"].value) for name in ("ms", "bytes")))

    try:
        return ArchiveWriter(table, world, notes, retention)
    except StoppedTable as error:
        notes.stop(error.stopped.what)
        raise


def _bound(text: str | None) -> int | None:
    """A bound of the topic's configs; None: there is none, which brokers write as -1 or below."""
    found = -1 if text is None else int(text)
    return None if found < 0 else found
