"""Commits of others at the moment of a commit or a rewrite: no row is lost, and none returns.

Each step is one operation of the writer, and at its Delta commit, when its files are written, one
of another program or of a second writer. The model has the other one first, then the writer's own
unless it was refused.
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
from deltalake.exceptions import CommitFailedError
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
OTHERS = st.one_of(
    st.just(("nothing", "")),
    st.just(("optimize", "")),
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
        self.path, self.at = str(path), 0
        self.writer, self.rival = Writer(self.path, "one"), Writer(self.path, "two")
        self.rows: list[tuple[str, int]] = []

    def own(self, name: str, what: Any, other: tuple[str, Any]) -> None:
        """An operation of the writer, and one of another program just before its Delta commit."""
        with before_commit(lambda: self.other(*other)):
            try:
                self.run(self.writer, name, what)
            except CommitFailedError:
                # A rewrite whose files another commit has removed.
                assert (name, other[0]) in REFUSED
            except StoppedError:
                assert other[0] in ("append", "upsert")
                assert name != "rewrite"
        if other[0] in ("append", "upsert"):
            # It stops at its next commit at the latest; the process starts again.
            chain = self.rival.commits, self.rival.end
            self.writer = Writer(self.path, "one")
            self.writer.table.load()
            self.writer.commits, self.writer.end = chain
        else:
            self.rival.commits, self.rival.end = self.writer.commits, self.writer.end

    def other(self, name: str, what: Any) -> None:
        if name == "optimize":
            DeltaTable(self.path).optimize.compact()
        elif name == "insert":
            (row,) = self.records([what])
            write_deltalake(self.path, pa.Table.from_pylist([row], SCHEMA), mode="append")
            self.rows.append((what, row["_offset"]))
        elif name == "delete":
            DeltaTable(self.path).delete(f"key = '{what}'")
            self.rows = [row for row in self.rows if row[0] != what]
        elif name != "nothing":
            self.rival.table.load()
            self.run(self.rival, name, what)

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


REFUSED = {("rewrite", each) for each in ("delete", "optimize", "rewrite", "upsert")}


@contextmanager
def before_commit(run: Any) -> Iterator[None]:
    """Call `run` once, before the next Delta commit of this process's own files."""
    commit, waiting = DeltaTable.create_write_transaction, [run]

    def raced(*args: Any, **more: Any) -> None:
        if waiting:
            waiting.pop()()
        commit(*args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", raced)
        yield


@given(steps=st.lists(st.tuples(OWN, OTHERS), min_size=2, max_size=6))
@settings(max_examples=15, deadline=None)
def test_commits_of_others_at_the_same_moment_lose_no_row(steps: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder) / "t")
        for (name, what), other in steps:
            world.own(name, what, other)
            world.check()
