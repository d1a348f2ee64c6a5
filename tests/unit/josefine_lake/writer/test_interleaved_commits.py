"""Commits of others at the moment of a commit or a rewrite: no row is lost, and none returns.

Each step is one operation of the writer, and at its Delta commit, when its files are written, or
when it lists the table's files, one of another program or of a second writer. The model has the
other one first, then the writer's own unless it was refused.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_lake.writer.changes import DELETED, PendingChanges
from josefine_lake.writer.data_file import DataFile
from josefine_lake.writer.delta_table import ChainedTable
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.offset_chain import Commit
from pipelines.sinks.commits import Link, StoppedError
from pipelines.storage.folders import Folders

SCHEMA = pa.schema([("key", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())])
FLAGGED = SCHEMA.append(pa.field(DELETED, pa.bool_()))
TP = TopicPartition("t", 0)
KEYS = st.sampled_from(["a", "b", "c"])
CHANGES = st.tuples(
    st.just("upsert"), st.lists(st.tuples(KEYS, st.booleans()), min_size=1, max_size=3)
)
"""(key, whether its row is deleted)"""
APPENDS = st.tuples(st.just("append"), KEYS)
REWRITES = st.just(("rewrite", ""))
OWN = APPENDS | CHANGES | REWRITES
MOMENTS = st.sampled_from(["create_write_transaction", "get_add_actions"])
OTHERS = st.one_of(
    st.just(("nothing", "")),
    st.just(("optimize", "")),
    st.just(("optimize and vacuum", "")),
    st.tuples(st.just("restore"), st.integers(1, 9)),
    st.tuples(st.just("insert"), KEYS),
    st.tuples(st.just("delete"), KEYS),
    OWN,
)


class Writer:
    """A process that writes the chain. Mutable: where it believes the chain to be."""

    def __init__(self, path: str, run: str) -> None:
        folder = Folders({}, {}).open(path)
        assert folder is not None
        self.table = ChainedTable(folder, Link(pipeline="table_topics", sink="t", run=run))
        self.table.load()
        self.table.ensure(SCHEMA)
        self.commits = self.end = 0

    def commit(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Raises StoppedError."""
        made = Commit(
            start={TP: self.end},
            end=TopicOffsets(ends={TP: self.end + 1}, topic_ids={"t": "1"}),
            txn_version=self.commits + 1,
        )
        if name == "append":
            file: Any = DataFile(self.table.folder, SCHEMA)
            file.add(pa.RecordBatch.from_pylist(rows, SCHEMA))
        else:
            file = PendingChanges(("key",), ("_offset", "_partition"))
            file.add(pa.RecordBatch.from_pylist(rows, FLAGGED))
        self.table.commit([file.close(0)], made, SCHEMA, {}, lambda place: None)
        self.commits, self.end = self.commits + 1, self.end + 1


class World:
    """A table, its writer, a second writer, and the rows that the table should have. Mutable."""

    def __init__(self, path: Path) -> None:
        self.path, self.at, self.came = str(path), 0, ""
        self.writer, self.rival = Writer(self.path, "one"), Writer(self.path, "two")
        self.rows: list[tuple[str, int]] = []
        self.rows_at: list[list[tuple[str, int]]] = []
        """By version."""
        self.note()

    def own(self, name: str, what: Any, moment: str, other: tuple[str, Any]) -> None:
        """An operation of the writer, and one of another program at a moment of it."""
        self.came, is_made = "", False
        with before(moment, lambda: self.other(*other)):
            try:
                self.run(self.writer, name, what)
                is_made = True
            except CommitFailedError:
                # A rewrite whose files another commit has removed.
                assert (name, self.came) in REFUSED
            except StoppedError:
                assert self.came in STOPPING
                assert name != "rewrite"
            except OSError:
                # Files of the version that it has open are gone: it starts again.
                assert (moment, self.came) == ("get_add_actions", "optimize and vacuum")
        assert not (is_made and self.came == "restore" and name != "rewrite")
        # It stops at its next commit at the latest; the process starts again, by the word of a
        # person after a RESTORE.
        last = self.rival if self.came in ("append", "upsert") else self.writer
        if self.came in STOPPING:
            self.writer = Writer(self.path, "one")
        for each in (self.writer, self.rival):
            each.commits, each.end = last.commits, last.end
        self.check()

    def other(self, name: str, what: Any) -> None:
        self.note()
        self.came = name
        table = DeltaTable(self.path)
        if name.startswith("optimize"):
            table.optimize.compact()
            if name == "optimize and vacuum":
                table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        elif name == "restore":
            to = max(0, table.version() - what)
            try:
                table.restore(to)
                self.rows = [*self.rows_at[to]]
            except DeltaError:
                # It is the newest version, or VACUUM has deleted its files.
                self.came = "nothing"
        elif name == "insert":
            (row,) = self.records([what])
            write_deltalake(self.path, pa.Table.from_pylist([row], SCHEMA), mode="append")
            self.rows.append((what, row["_offset"]))
        elif name == "delete":
            table.delete(f"key = '{what}'")
            self.rows = [row for row in self.rows if row[0] != what]
        elif name != "nothing":
            self.rival.table.load()
            self.run(self.rival, name, what)
        self.note()

    def note(self) -> None:
        """All versions since the last call have the present rows."""
        new = DeltaTable(self.path).version() + 1 - len(self.rows_at)
        self.rows_at += [[*self.rows] for _ in range(new)]

    def run(self, writer: Writer, name: str, what: Any) -> None:
        """Raises StoppedError, CommitFailedError."""
        if name == "rewrite":
            writer.table.compact(1 << 20, 0)
            return
        changes = [(what, False)] if name == "append" else what
        rows = self.records([key for key, _ in changes])
        flagged = [{**row, DELETED: gone} for row, (_, gone) in zip(rows, changes, strict=True)]
        writer.commit(name, rows if name == "append" else flagged)
        if name == "append":
            self.rows += [(row["key"], row["_offset"]) for row in rows]
            return
        for row in {row["key"]: row for row in flagged}.values():
            there = sum(key == row["key"] for key, _ in self.rows)
            self.rows = [each for each in self.rows if each[0] != row["key"]]
            count = 0 if row[DELETED] else max(1, there)
            self.rows += [(row["key"], row["_offset"])] * count

    def records(self, keys: list[str]) -> list[dict[str, Any]]:
        self.at += len(keys)
        first = self.at - len(keys)
        return [{"key": key, "_partition": 0, "_offset": at} for at, key in enumerate(keys, first)]

    def check(self) -> None:
        found = DeltaTable(self.path).to_pyarrow_table().to_pylist()
        assert sorted((row["key"], row["_offset"]) for row in found) == sorted(self.rows)
        self.note()


STOPPING = ("append", "upsert", "restore")
REMOVING = ("delete", "optimize", "optimize and vacuum", "rewrite", "upsert", "restore")
REFUSED = {("rewrite", each) for each in REMOVING}


@contextmanager
def before(method: str, run: Any) -> Iterator[None]:
    """Call `run` once, before the next call of this method of delta-rs."""
    called, waiting = getattr(DeltaTable, method), [run]

    def raced(*args: Any, **more: Any) -> Any:
        if waiting:
            waiting.pop()()
        return called(*args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaTable, method, raced)
        yield


@given(steps=st.lists(st.tuples(OWN, MOMENTS, OTHERS), min_size=2, max_size=6))
@settings(max_examples=20, deadline=None)
def test_commits_of_others_at_the_same_moment_lose_no_row(steps: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder) / "t")
        for (name, what), moment, other in steps:
            world.own(name, what, moment, other)
