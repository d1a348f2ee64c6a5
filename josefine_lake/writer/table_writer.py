"""The writer of one table: reads, writes files and commits as `state.TableState` decides.

Rules: dead letters are committed before the rows that left them out; the group's offsets after
both. An error leaves no open file; what the table has is looked at again by the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from josefine_broker.base.ids import TopicPartition
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.formats.registry import NewerSchemaError
from josefine_lake.formats.values import Values, values_of
from josefine_lake.report.table_stats import UNKNOWN, US_PER_MS, TableStats
from josefine_lake.writer import compaction, verdicts
from josefine_lake.writer.columns import LETTERS_SCHEMA, Columns, not_below
from josefine_lake.writer.delta_table import MisfitError
from josefine_lake.writer.ports import File, Log, OpenFile, Store
from josefine_lake.writer.start import Ready, Sides, Topic, start, taken_over
from josefine_lake.writer.state import Fetch, TableState, Write, early_share
from josefine_lake.writer.topic_reader import Read
from josefine_lake.writer.upkeep import WITHIN_MS, Upkeep
from josefine_lake.writer.verdicts import StoppedTable
from josefine_spark.base.topic_offsets import ByPartition, nested
from pipelines.exactly_once.checkpoint_start import LETTERS
from pipelines.exactly_once.offset_chain import Stop, Tip, Verdict
from pipelines.sinks.commits import StoppedError

BEAT_MS = 5_000
"""How often new partitions and a recreated topic are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The parts of the world that one writer uses."""

    log: Log
    store: Store
    letters: Store | None
    """The dead-letter table; None: a record that does not decode stops the table."""
    open_file: OpenFile
    clock_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    """The time of the calendar, for readers of the tables' logs."""
    committed: Callable[[], ByPartition]
    """Reads the group's offsets of the topic."""
    commit_offsets: Callable[[ByPartition], None]
    """Stores them, after each Delta commit; it may fail silently."""
    note_stop: Callable[[TopicPartition, int, str], None]
    """Stores with a committed offset why the table stops at a record; it may fail silently."""
    at: Callable[[str], None]
    """Called with the name of each step of a commit."""
    stats: TableStats = field(default_factory=TableStats)
    """What metrics and health show of this table."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The user of a schema registry."""


class TableWriter:
    """Mutable: the open file, the pending dead letters, the state."""

    def __init__(self, table: TableTopic, world: World) -> None:
        """Raises StoppedTable for a schema that cannot be written, OSError for a schema file or
        registry without an answer."""
        self._table = table
        self._world = world
        self._columns = columns_of(table, world.env)
        self._file: File | None = None
        self._letters: list[Any] = []
        self._in_letters: ByPartition = {}
        self._looked_ms = 0
        self._upkeep = Upkeep()
        self.rows = 0
        """Rows committed since the start."""

    def run(
        self,
        stopping: Callable[[], bool],
        *,
        once: bool = False,
        trust: bool = False,
        renames: Mapping[str, str] | None = None,
    ) -> None:
        """Write until `stopping`, or with `once` up to the end that the topic has at the start.
        `renames`: the old names of a chain to take over.

        Raises StoppedTable; KafkaError, CorruptData, OutOfRangeError, DeltaError and OSError of the
        world, after which another run may continue."""
        while True:
            try:
                return self._run(stopping, renames or {}, once=once, trust=trust)
            except NewerSchemaError:
                # Nothing of the open file is committed: its records are read again.
                self._columns, trust = columns_of(self._table, self._world.env), False

    def _run(
        self,
        stopping: Callable[[], bool],
        renames: Mapping[str, str],
        *,
        once: bool,
        trust: bool,
    ) -> None:
        try:
            topic = self._world.log.look()
            self._take_over(topic, renames)
            state = self._started(topic, trust)
            ends = self._world.log.stable_ends(state.positions) if once else None
            while not stopping():
                at_end = ends is not None and _has(state.positions, ends)
                if at_end and state.due_ms() is None:
                    break
                self._step(state, at_end=at_end)
        except StoppedError as stop:
            raise self._refused(stop.stop) from stop
        finally:
            self._discard()

    def _take_over(self, topic: Topic, renames: Mapping[str, str]) -> None:
        """Take over the chains of table and dead letters that `renames` names. Raises
        StoppedTable, StoppedError."""
        world, table = self._world, self._table
        chains = ((world.store, table.chain), (world.letters, table.dead_letter_chain))
        for store, own in chains if renames else ():
            if store is None or isinstance(store.load(), Tip):
                continue
            outcome = taken_over(own, store.others(), topic, renames)
            if isinstance(outcome, Stop):
                raise self._refused(outcome)
            if outcome is not None:
                store.take_over(outcome.other)

    def _started(self, topic: Topic, trust: bool) -> TableState:
        """The state to continue from. Raises StoppedTable."""
        world, table = self._world, self._table
        sides = Sides(
            topic=topic,
            found=world.store.load(),
            others=world.store.others(),
            dead=None if world.letters is None else world.letters.load(),
            committed={p: at for p, at in world.committed().items() if p in topic.bounds},
        )
        if isinstance(sides.found, Tip) and (other := verdicts.other_mode(table, sides.found.said)):
            raise other
        ready = start(table, sides, trust=trust)
        if isinstance(ready, Stop):
            raise self._refused(ready)
        assert isinstance(ready, Ready)
        self._accept(ready, topic, trust=trust)
        # All checks come before the first file: a refused start changes nothing.
        try:
            world.store.ensure(self._columns.schema)
            if world.letters is not None and world.letters.is_there:
                world.letters.ensure(LETTERS_SCHEMA)
        except MisfitError as error:
            raise verdicts.misfit(table, error) from error
        if isinstance(sides.dead, Tip):
            self._in_letters = sides.dead.reached.ends
        known = {p: at for p, at in ready.positions.items() if ready.tip is not None}
        if known != sides.committed or trust:
            # A crash came between both commits, or the group's offsets would refuse the next start
            # once more.
            world.commit_offsets(known or ready.positions)
        self._looked_ms = world.clock_ms()
        world.stats.started(ready.positions, world.log.stable_ends(ready.positions))
        return TableState(table, topic.id, ready, early_share(table.topic))

    def _accept(self, ready: Ready, topic: Topic, *, trust: bool) -> None:
        """A last check of a start, before anything is written or reported. Raises StoppedTable."""

    def _facts(self) -> Mapping[str, Any]:
        """More for the metadata of the next commit."""
        return self._columns.facts

    def _step(self, state: TableState, *, at_end: bool) -> None:
        world = self._world
        now_ms = world.clock_ms()
        step = state.next(now_ms, at_end=at_end)
        if isinstance(step, Stop):
            raise StoppedError(step)
        if isinstance(step, Write):
            self._write(state, step, now_ms)
            return
        assert isinstance(step, Fetch)
        reads = world.log.fetch(step.positions, step.wait_ms)
        # A client follows a topic that was created again: its records are not of these positions.
        if world.log.topic_id() != state.topic_id:
            self._look_again(state, now_ms)
        for read in reads:
            self._take(state, read)
        if now_ms - self._looked_ms >= BEAT_MS:
            self._look_again(state, now_ms)

    def _look_again(self, state: TableState, now_ms: int) -> None:
        """Find new partitions, and a topic that was created again. Raises StoppedError."""
        self._looked_ms = now_ms
        topic = self._world.log.look()
        if topic.id != state.topic_id:
            raise StoppedError(Stop(verdict=Verdict.TOPIC_RECREATED))
        for tp, bounds in topic.bounds.items():
            state.added(tp, bounds.earliest)

    def _take(self, state: TableState, read: Read) -> None:
        # Before they are decoded: the table lacks them also if one of them stops it.
        self._world.stats.lag.read(read.partition, *_times_ms(read.batches), read.end)
        for records in read.batches:
            rows, letters = self._columns.rows(records)
            if letters is not None:
                self._refuse_or_keep(state, letters)
            if rows.num_rows:
                if self._file is None:
                    self._file = self._world.open_file(self._world.store, self._columns.schema)
                self._file.add(rows)
        size = 0 if self._file is None else self._file.size
        # Dead letters wait in memory: a topic of nothing else must not fill it until its lag is up.
        size += sum(each.nbytes for each in self._letters)
        state.took(read.partition, read.next_offset, size, self._world.clock_ms())

    def _refuse_or_keep(self, state: TableState, letters: Any) -> None:
        """Keep dead letters for the next commit. Raises StoppedTable if they are to stop it."""
        if self._world.letters is not None:
            self._letters.append(letters)
            return
        said = letters.select(["topic", "partition", "offset", "reason"])
        first = said.slice(0, 1).to_pylist()[0]
        stop = verdicts.stopped(
            self._table,
            f"{first['topic']}-{first['partition']} offset {first['offset']}: {first['reason']} "
            "(josefine.table.dead.letter=fail)",
            f"josefine topics alter {self._table.topic} --config josefine.table.dead.letter=/TABLE"
            "  # put such records there",
        )
        # Nothing else shows this stop: the table and the group's offsets look as before it. The
        # offset is the table's own end, because one beyond that would refuse the next start.
        tp = TopicPartition(first["topic"], first["partition"])
        ends = state.tip.reached.ends if state.tip else {}
        self._world.note_stop(tp, ends.get(tp, 0), str(stop))
        raise stop

    def _write(self, state: TableState, step: Write, now_ms: int) -> None:
        """Commit the pending dead letters and rows. Raises StoppedError."""
        world = self._world
        # The files are closed, and so durable, before any commit names one.
        world.at("before_files")
        added = [] if self._file is None else [self._file.close(world.wall_ms())]
        rows, bytes_ = (0, 0) if self._file is None else (self._file.rows, self._file.bytes)
        self._write_letters(state, step)
        more: dict[str, Any] = {
            "mode": self._table.mode.value,
            "keys": [*self._table.keys],
            "dead_letters": self._table.dead_letter,
            **self._facts(),
        }
        if world.letters is not None:
            more[LETTERS] = nested(self._in_letters)
        # From here on a log entry may name the file, whatever this process hears of it: it is
        # never removed again. VACUUM removes what no commit names.
        self._file = None
        world.store.commit(added, step.commit, self._columns.schema, more, world.at)
        world.at("after_commit")
        self.rows += rows
        state.committed(step, world.clock_ms() - now_ms)
        world.stats.committed(rows, bytes_, state.positions, world.wall_ms())
        world.commit_offsets(dict(state.positions))
        self._keep_up(state)

    def _write_letters(self, state: TableState, step: Write) -> None:
        """Commit the dead letters that their table lacks; without any the chain only advances."""
        world, commit = self._world, step.dead
        letters, self._letters = self._letters, []
        if commit is None:
            return
        skip = {tp.partition: end for tp, end in commit.skip_below.items()}
        left = [each for one in letters if (each := not_below(one, skip)).num_rows]
        if left and world.letters is not None:
            world.letters.ensure(LETTERS_SCHEMA)
            file = world.open_file(world.letters, LETTERS_SCHEMA)
            for each in left:
                file.add(each)
            added = [file.close(world.wall_ms())]
            world.at("before_dead_letters")
            world.letters.commit(added, commit, LETTERS_SCHEMA, {}, _nowhere)
            self._in_letters = commit.end.ends
            world.stats.counts.dead_letters += file.rows
            world.at("after_dead_letters")
        state.dead_committed(commit, wrote=bool(left))

    def _keep_up(self, state: TableState) -> None:
        """Rewrite small files if there are too many, and delete those that no reader needs."""
        world, upkeep = self._world, self._upkeep
        try:
            files, bytes_ = world.store.files_and_bytes()
            if upkeep.compacts(files, bytes_, world.clock_ms()):
                upkeep.compact_failed(world.clock_ms())  # unless it succeeds
                file_bytes = max(self._table.target_file_bytes, compaction.FILE_BYTES)
                world.store.compact(file_bytes, world.wall_ms())
                upkeep.compacted()
                world.stats.counts.compactions += 1
                files, bytes_ = world.store.files_and_bytes()
            retention_ms, version = self._table.deleted_retention_ms, state.txn_version
            if retention_ms is not None and upkeep.vacuums(version, world.clock_ms()):
                deleted, is_finished = world.store.vacuum(retention_ms, WITHIN_MS)
                upkeep.vacuumed(world.clock_ms(), is_finished=is_finished)
                world.stats.counts.files_deleted += deleted
            world.stats.has(files, bytes_)
            world.stats.upkeep_problem = ""
        except (DeltaError, OSError) as error:
            # The rows are committed: the next ones must not wait for this.
            world.stats.upkeep_failed(str(error))

    def _refused(self, stop: Stop) -> StoppedTable:
        return StoppedTable(verdicts.by_chain(self._table, stop))

    def _discard(self) -> None:
        if self._file is not None:
            self._file.discard()
        self._file, self._letters = None, []


def columns_of(table: TableTopic, env: Mapping[str, str]) -> Columns:
    """The columns of a topic's table. Raises StoppedTable for a schema that cannot be written,
    OSError for a schema file or registry without an answer."""
    try:
        values: Values | None = values_of(table, env)
        return Columns(table, values, env)
    except ValueError as error:
        raise verdicts.stopped(table, str(error)) from error


def _times_ms(batches: Sequence[Any]) -> tuple[int, int]:
    """The oldest and the newest timestamp of records; UNKNOWN without one."""
    bounds = [pc.min_max(each.column("timestamp").cast(pa.int64())).as_py() for each in batches]
    found = [each // US_PER_MS for pair in bounds for each in pair.values() if each is not None]
    return (min(found), max(found)) if found else (UNKNOWN, UNKNOWN)


def _nowhere(place: str) -> None:
    """No failpoint."""


def _has(positions: Mapping[Any, int], ends: ByPartition) -> bool:
    return all(positions[p] >= end for p, end in ends.items())
