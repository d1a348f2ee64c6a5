"""An archive among other programs: each record is in it once, and a reader gets exactly its rows.

A writer appends what the log has, rewrites small files, and deletes what is older than the
retention; it may die between the upload of a file and its commit, and a commit's answer may be
lost. A second writer, OPTIMIZE, VACUUM and RESTORE come before any call of delta-rs. A reader reads
any range of the version that it has looked at; windows, row groups and caches are small here. The
model is a dict of the records of each version; the table, as any reader of Delta finds it, is
compared with it after every single commit.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from josefine_broker.base.ids import TopicPartition
from josefine_lake.archive import reader, retention
from josefine_lake.archive.config import archive_topic
from josefine_lake.archive.partition_sizes import PartitionSizes
from josefine_lake.archive.reader import NO_OFFSET, ArchiveTable, Window
from josefine_lake.archive.retention import Retention, delete_expired
from josefine_lake.config.table_topic import ARCHIVE_ENABLE, ARCHIVE_LOCATION, TableTopic
from josefine_lake.writer import data_file
from josefine_lake.writer.columns import ARCHIVE_SCHEMA
from josefine_lake.writer.data_file import ArchiveFile
from josefine_lake.writer.delta_table import ChainedTable
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.sinks.commits import Link, StoppedError
from pipelines.storage.folders import Folders
from tests.simulation.mutating import Mutant
from tests.support.delta_faults import (
    ANSWERS,
    CALLS,
    COMMIT,
    Faults,
    Killed,
    Versions,
    others_between,
    require_caught,
    run_machine,
)

DELETE, OPEN = "delete", "__init__"
"""delta-rs's method of retention's commit, and that by which a reader opens a version."""
PARTITIONS = (0, 1)
NOW_MS = 1_700_000_000_000
KEEP_MS = 1_000
SMALL = 1 << 20
"""Bytes below which all files of the machine are."""
EMPTY = 0
"""Of `restore`: the version without any row."""
COUNTS = st.tuples(st.integers(0, 5), st.integers(0, 5))
"""How many records of each partition a commit gets."""
SHAPES = st.tuples(
    st.sampled_from([1, 3, 100]),
    st.sampled_from([1, 1 << 18]),
    st.sampled_from([1, 2_000, 1 << 20]),
    st.sampled_from([1, 4, 1 << 14]),
    st.sampled_from([1, 1 << 20]),
)
"""Rows of a row group, bytes of one with a partition of its own; bytes of a window's groups,
offsets of one that has too large ones, bytes of those that are kept."""
OTHERS = st.one_of(
    st.tuples(st.just("rival"), COUNTS),
    st.just(("rewrite", 0)),
    st.just(("optimize", 0)),
    st.just(("vacuum", 0)),
    st.just(("expire", 0)),
    st.tuples(st.just("restore"), st.sampled_from([-1, -1, -2, EMPTY])),
)
COMMON = [("optimize", 0), ("vacuum", 0), ("rewrite", 0), ("rival", (1, 2))]
STOPS = {"rival", "restore"}
OFFSETS = st.integers(0, 40)
_GONE = re.compile(r'"partition" = (\d+) AND "offset" < (\d+)')


@dataclass(frozen=True)
class Record:
    time_ms: int
    epoch: int


@dataclass
class Version:
    """What a version of the archive has."""

    rows: dict[tuple[int, int], Record] = field(default_factory=dict)
    """(partition, offset) → its record."""
    ends: dict[int, int] = field(default_factory=dict)

    def of(self, partition: int) -> dict[int, Record]:
        return {at: each for (p, at), each in sorted(self.rows.items()) if p == partition}

    def end(self, partition: int) -> int:
        return self.ends.get(partition, 0)


class Process:
    """A writer of the archive. Mutable: its chain."""

    def __init__(self, path: Path, archive: TableTopic, name: str) -> None:
        folder = Folders({}, {}).open(str(path))
        assert folder is not None
        chain = archive.chain
        link = Link(pipeline=chain.pipeline, sink=chain.sink, run=name)
        self.table = ChainedTable(folder, link, new_file=ArchiveFile)
        found = self.table.load()
        self.table.ensure(ARCHIVE_SCHEMA)
        self.tip = found if isinstance(found, Tip) else Tip(reached=TopicOffsets(), txn_version=0)

    def end(self, partition: int) -> int:
        return self.tip.reached.ends.get(TopicPartition("t", partition), 0)

    def append(self, rows: list[dict[str, Any]], ends: dict[int, int], dies: str) -> None:
        """Commit a file. Raises StoppedError, DeltaError, OSError, Killed."""
        file = ArchiveFile(self.table.folder, ARCHIVE_SCHEMA)
        for at in range(0, len(rows), 2):
            file.add(pa.RecordBatch.from_pylist(rows[at : at + 2], ARCHIVE_SCHEMA))
        actions = [file.close(NOW_MS)]

        def step(place: str) -> None:
            if place == dies:
                raise Killed

        reached = TopicOffsets(
            ends={TopicPartition("t", p): end for p, end in ends.items()}, topic_ids={"t": "1"}
        )
        made = Commit(
            start=self.tip.reached.ends, end=reached, txn_version=self.tip.txn_version + 1
        )
        self.table.commit(actions, made, ARCHIVE_SCHEMA, {}, step)
        self.tip = Tip(reached=reached, txn_version=made.txn_version)


class Archive(RuleBasedStateMachine):
    """One archive. Mutable: its writer, its reader, and what each version should have."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "t")
        found = archive_topic("t", {ARCHIVE_ENABLE: "true", ARCHIVE_LOCATION: str(self.path)})
        assert found is not None
        self.topic, self.runs = found, count()
        self.came: set[str] = set()
        """Who came since the writer was opened."""
        self.log: dict[int, dict[int, Record]] = {p: {} for p in PARTITIONS}
        """What brokers have had: offsets have gaps."""
        self.log_ends = dict.fromkeys(PARTITIONS, 0)
        self.patch = pytest.MonkeyPatch()
        self.faults = Faults()
        self.faults.watch(DeltaTable, *CALLS, DELETE, OPEN, commits=(COMMIT, DELETE))
        self.now, self.versions = Version(), Versions[Version](self.path)
        self.writer = self.opened()
        self.versions.note(self.now)
        self.reader, self.seen = ArchiveTable(self.topic, {}), Version()

    def teardown(self) -> None:
        self.faults.end()
        self.patch.undo()
        self.folder.cleanup()

    @initialize(shape=SHAPES)
    def shape(self, shape: tuple[int, int, int, int, int]) -> None:
        names = ("GROUPS_BYTES", "WINDOW", "KEPT_BYTES")
        self.patch.setattr(data_file, "GROUP_ROWS", shape[0])
        self.patch.setattr(data_file, "PART_BYTES_MIN", shape[1])
        for name, value in zip(names, shape[2:], strict=True):
            self.patch.setattr(reader, name, value)
        self.patch.setattr(reader, "WINDOW_BYTES", 4 * shape[2])
        self.reader = ArchiveTable(self.topic, {})
        # The first file is old.
        for counts in ((2, 3), (3, 2)):
            self.other("rival", counts)
        self.writer = self.opened()
        self.look_once()

    def opened(self) -> Process:
        """A new writer: its chain is where the archive is."""
        found = Process(self.path, self.topic, f"run {next(self.runs)}")
        ends = {tp.partition: end for tp, end in found.tip.reached.ends.items()}
        assert ends == self.now.ends, "the next start reads other records"
        return found

    # -- the writer

    def records(
        self, writer: Process, counts: tuple[int, ...]
    ) -> tuple[list[dict[str, Any]], dict[int, int]]:
        """The next records of the log, at least so many, in the order of their arrival; ends."""
        ends = {p: writer.end(p) + (n and 2 * n - 1) for p, n in enumerate(counts)}
        for p, end in ends.items():
            for at in range(self.log_ends[p], end):
                # A gap is a marker or an aborted record.
                if at % 3 != 2:
                    old = at % 7 != 6 and at < 20
                    time_ms = NOW_MS - (2 * KEEP_MS if old else at % 7)
                    self.log[p][at] = Record(time_ms, at // 4)
            self.log_ends[p] = max(end, self.log_ends[p])
        places = [(at, p) for p, end in ends.items() for at in range(writer.end(p), end)]
        rows = [
            {
                "topic": "t", "partition": p, "offset": at, "timestamp": found.time_ms * 1_000,
                "timestampType": 0, "value": b"%d" % at, "leader_epoch": found.epoch,
            }
            for at, p in sorted(places)
            if (found := self.log[p].get(at))
        ]  # fmt: skip
        return rows, ends

    def archived(self, ends: dict[int, int]) -> None:
        for p, end in ends.items():
            for at in range(self.now.end(p), end):
                if at in self.log[p]:
                    self.now.rows[p, at] = self.log[p][at]
            self.now.ends[p] = end

    @rule(
        data=st.data(), counts=COUNTS, dies=st.sampled_from([""] * 5 + ["before_commit"]),
    )  # fmt: skip
    def append(self, data: st.DataObject, counts: tuple[int, int], dies: str) -> None:
        """The next records; it may die between the upload of the file and its commit."""
        rows, ends = self.records(self.writer, counts)
        made: list[str] = []

        def commit(*_: Any) -> str:
            made.append("append")
            self.versions.note_commit(self.now)
            self.archived(ends)
            self.compare()
            answer: str = data.draw(ANSWERS, "answer")
            return answer

        came = others_between(self.faults, data, OTHERS, COMMON, self.other)
        self.faults.made = commit
        is_there = self.attempt(came, lambda: self.writer.append(rows, ends, dies))
        assert len(made) <= 1, "records were committed twice"
        assert len(made) == 1 or not is_there, "the writer believes that it is stored"
        self.compare()

    def attempt(self, came: list[str], do: Any) -> bool:
        """Whether it was done; otherwise the writer starts again."""
        try:
            do()
        except Killed:
            pass
        except StoppedError:
            assert STOPS & {*came, *self.came}
        except (DeltaError, OSError):
            # Refused after another commit, or a file was compacted and deleted meanwhile.
            assert came
        else:
            self.came |= {*came}
            return True
        finally:
            self.faults.stop()
        self.writer, self.came = self.opened(), set()
        return False

    @rule(data=st.data())
    def rewrite(self, data: st.DataObject) -> None:
        """Small files become one."""

        def commit(*_: Any) -> str:
            self.compare()
            answer: str = data.draw(ANSWERS, "answer")
            return answer

        came = others_between(self.faults, data, OTHERS, COMMON, self.other)
        self.faults.made = commit
        self.attempt(came, lambda: self.writer.table.compact(SMALL, NOW_MS))
        self.compare()

    @rule(data=st.data(), keep=st.sampled_from([KEEP_MS, 10 * KEEP_MS]))
    def expire(self, data: st.DataObject, keep: int) -> None:
        """Delete what is older."""

        def commit(predicate: str, *_: Any) -> str:
            self.versions.note_commit(self.now)
            self.expired(predicate, NOW_MS - keep)
            self.compare()
            answer: str = data.draw(ANSWERS, "answer")
            return answer

        came = others_between(self.faults, data, OTHERS, COMMON, self.other, is_early=True)
        self.faults.made = commit

        def delete() -> None:
            # `ArchiveWriter._expire` reports these, and the writer continues.
            with suppress(DeltaError, FileNotFoundError):
                delete_expired(self.writer.table, Retention(ms=keep), NOW_MS, PartitionSizes())

        self.attempt(came, delete)
        self.compare()

    def expired(self, predicate: str, before_ms: int) -> None:
        """Only old records go, from the start of each partition."""
        for partition, start in _GONE.findall(predicate):
            for at, record in self.now.of(int(partition)).items():
                if at < int(start):
                    assert record.time_ms < before_ms, "a young record was deleted"
                    del self.now.rows[int(partition), at]

    # -- the reader

    @rule(data=st.data())
    def look_again(self, data: st.DataObject) -> None:
        """What the reader has is one version that was the newest one during the call."""
        states = [deepcopy(self.now)]

        def other(name: str, where: Any) -> None:
            self.other(name, where)
            states.append(deepcopy(self.now))

        came = others_between(self.faults, data, OTHERS, COMMON, other, is_early=True)
        try:
            self.reader.look()
            self.came |= {*came}
        finally:
            self.faults.stop()
        self.compare()
        for each in states:
            try:
                self.seen = each
                self.read_all()
            except FileNotFoundError:
                assert "vacuum" in came
                self.look_once()
                return
            except AssertionError:
                continue
            return
        raise AssertionError("the reader has a version that the archive never was")

    def look_once(self) -> None:
        self.reader.look()
        self.seen = deepcopy(self.now)

    def read_all(self) -> None:
        for p in PARTITIONS:
            assert self.reader.end(p) == self.seen.end(p)
            assert self.reader.start(p) == min(self.seen.of(p), default=NO_OFFSET)
            self.check_range(p, 0, self.seen.end(p))

    @rule(partition=st.sampled_from(PARTITIONS), begin=OFFSETS, size=st.integers(1, 40))
    def read(self, partition: int, begin: int, size: int) -> None:
        """Any range of the version that the reader has looked at."""
        try:
            self.check_range(partition, begin, min(begin + size, self.seen.end(partition)))
        except FileNotFoundError:
            # As in `serve`: the file was rewritten and deleted since the last look.
            self.look_once()
            self.check_range(partition, begin, min(begin + size, self.seen.end(partition)))

    @rule(partition=st.sampled_from(PARTITIONS), number=OFFSETS, end=OFFSETS)
    def search(self, partition: int, number: int, end: int) -> None:
        """By time, and by leader epoch."""
        time_ms, epoch = NOW_MS - number, number // 4
        self.look_once()
        records = {at: each for at, each in self.seen.of(partition).items() if at < end}
        found = [(at, each.time_ms) for at, each in records.items() if each.time_ms >= time_ms]
        assert self.reader.at_time(partition, time_ms, end) == (found[0] if found else None)
        later = [at for at, each in records.items() if each.epoch > epoch]
        before = [each.epoch for at, each in records.items() if later and at < later[0]]
        wanted = (later[0], before[-1] if before else epoch) if later else None
        assert self.reader.epoch_end(partition, epoch, end) == wanted

    def check_range(self, partition: int, at: int, end: int) -> None:
        found: list[tuple[int, int]] = []
        wanted = [(o, r.time_ms) for o, r in self.seen.of(partition).items() if at <= o < end]
        while at < end:
            rows, until = self.reader.rows(partition, at, end)
            assert at < until <= end
            offsets = rows.column("offset").to_pylist()
            assert all(at <= each < until for each in offsets)
            times = rows.column("timestamp").cast(pa.int64()).to_pylist()
            found += zip(offsets, [each // 1_000 for each in times], strict=True)
            at = until
        assert found == wanted

    # -- other programs

    def other(self, name: str, where: Any) -> None:
        """Another program, which is never interrupted."""
        self.versions.note(self.now)
        if name == "rival":
            writer = self.opened()
            rows, ends = self.records(writer, where)
            writer.append(rows, ends, "")
            self.archived(ends)
        elif name == "rewrite":
            self.opened().table.compact(SMALL, NOW_MS)
        elif name == "expire":
            starts = delete_expired(
                self.opened().table, Retention(ms=KEEP_MS), NOW_MS, PartitionSizes()
            )
            if starts:
                self.expired(retention.predicate(starts), NOW_MS - KEEP_MS)
        elif name == "optimize":
            DeltaTable(self.path).optimize.compact()
        elif name == "vacuum":
            DeltaTable(self.path).vacuum(0, dry_run=False, enforce_retention_duration=False)
        elif name == "restore":
            found = self.versions.restored(where)
            self.now = self.now if found is None else found
        self.compare()

    # -- what has to hold

    def compare(self) -> None:
        """The newest version has the model's records, each of them once."""
        names = ["partition", "offset", "timestamp", "leader_epoch"]
        rows = DeltaTable(self.path).to_pyarrow_table(columns=names).to_pylist()
        found = sorted((row["partition"], row["offset"]) for row in rows)
        assert found == sorted(self.now.rows)
        self.versions.note(self.now)


EXAMPLES, LENGTH = 25, 10


def test_each_record_is_archived_once_and_read_at_any_offset() -> None:
    run_machine(Archive, EXAMPLES, LENGTH)


@pytest.mark.slow
def test_no_history_of_many_has_a_record_twice() -> None:
    run_machine(Archive, 150, 16, is_random=True)


MUTANTS = (
    Mutant(
        breaks="another run's commit stops the writer",
        function=ChainedTable._ready,
        old="if entry.txn_version is not None or entry.handed_to:",
        new="if False:",
    ),
    Mutant(
        breaks="retention spares what is before a file that stays",
        function=retention.delete_expired,
        old="min([last + 1, *_first_of(files, partition, kept)])",
        new="last + 1",
    ),
    Mutant(
        breaks="a part of a window starts at its offset",
        function=Window.between,
        old="[offset, end]",
        new="[offset + 1, end]",
    ),
    Mutant(
        breaks="a look is at one version",
        function=ArchiveTable.look,
        old="None if newest < 0 else newest",
        new="None",
    ),
    Mutant(
        breaks="a look forgets the windows of before",
        function=ArchiveTable.look,
        old="self._kept.clear()",
        new="pass",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_broken_rule_is_caught(mutant: Mutant) -> None:
    require_caught(Archive, mutant, 400, LENGTH)
