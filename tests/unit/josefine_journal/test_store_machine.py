"""A journal's store among other programs: each event is in the table once, and none is lost.

A replicator and its merges, a second one, and OPTIMIZE, VACUUM, RESTORE, DELETE and new columns by
other programs, which come before any of the store's calls of delta-rs. A commit's answer may be
lost, and the process may be killed after it. The model is what each version has; the table, as any
reader of Delta finds it, is compared with it after every single commit.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from josefine_journal.delta_store import DeltaStore
from josefine_journal.errors import Overtaken, StoreError
from josefine_journal.merging import FAN_IN, merge
from josefine_journal.ports import Batch
from tests.support.delta_faults import (
    ANSWERS,
    CALLS,
    Faults,
    Killed,
    Versions,
    others_between,
    run_machine,
)
from tests.unit.josefine_journal.test_delta_store import append

EMPTY = -9
"""Of `restore`: the version without any row."""
PARTITIONS = st.sampled_from([0, 1])
OTHERS = st.one_of(
    st.tuples(st.just("append"), PARTITIONS),
    st.tuples(st.just("append"), PARTITIONS),
    st.just(("optimize", 0)),
    st.tuples(st.just("merge"), PARTITIONS),
    st.just(("vacuum", 0)),
    st.tuples(st.just("restore"), st.sampled_from([-1, -1, -3, EMPTY])),
    st.tuples(st.just("delete"), st.sampled_from(["offset = 1", "offset > 2", "partition = 0"])),
    st.just(("columns", 0)),
)
COMMON = [("optimize", 0), ("append", 1)]


@dataclass
class Version:
    """What a version of the table has."""

    rows: set[tuple[int, int]] = field(default_factory=set)
    """(partition, offset)"""
    ends: dict[int, int] = field(default_factory=dict)
    is_whole: bool = True
    """Not after an OPTIMIZE, which takes the ends away."""


FIRST = tempfile.TemporaryDirectory()
"""A table that each of the machine's runs starts with."""


class Stores(RuleBasedStateMachine):
    """One table. Mutable: its store, and what each version should have."""

    first: list[Version] | None = None
    """The versions of `FIRST`."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.tables = 0
        self.faults = Faults()
        self.faults.watch(DeltaTable, *CALLS)
        self.start()

    def teardown(self) -> None:
        self.faults.end()
        self.folder.cleanup()

    def start(self) -> None:
        """A copy of the first table, in which a merge of partition 0 is due."""
        self.tables += 1
        self.root = Path(self.folder.name, str(self.tables))
        self.path, self.now = self.root / "t", Version()
        self.versions = Versions[Version](self.path)
        self.store = DeltaStore(self.root, "t", None)
        if Stores.first is None:
            for at in range(FAN_IN + 1):
                self.replicate(self.store, at // FAN_IN, 1)
            Stores.first = [*self.versions.known]
            shutil.copytree(self.path, FIRST.name, dirs_exist_ok=True)
        else:
            shutil.copytree(FIRST.name, self.path)
            self.versions = Versions(self.path, Stores.first)
            self.now = deepcopy(Stores.first[-1])

    # -- operations of the store

    @initialize(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        """The merge that is due."""
        self.run(data, "merge", 0, 1)

    @rule(
        data=st.data(), what=st.sampled_from(["merge", "append"]), partition=PARTITIONS,
        count=st.sampled_from([FAN_IN - 1, 1]),
    )  # fmt: skip
    def work(self, data: st.DataObject, what: str, partition: int, count: int) -> None:
        self.run(data, what, partition, count)

    def run(self, data: st.DataObject, what: str, partition: int, count: int) -> None:
        """An operation, with others and a lost answer in between."""

        def answer() -> str:
            found: str = data.draw(ANSWERS, "answer")
            return found

        came = others_between(self.faults, data, OTHERS, COMMON, self.other)
        try:
            self.operate(self.store, what, partition, count, answer)
        except Killed:
            self.store = DeltaStore(self.root, "t", None)
        except Overtaken:
            assert came
        except (StoreError, OSError):
            # Of a table without ends, of files that are gone, or of a commit without its end.
            assert came or not self.now.is_whole
        finally:
            self.faults.stop()
        self.look()

    def operate(
        self, store: DeltaStore, what: str, partition: int, count: int, answer: Callable[[], str]
    ) -> None:
        """Raises Overtaken, StoreError, OSError, Killed."""
        if what == "append":
            self.replicate(store, partition, count, answer)
            return
        before, self.faults.made = self.faults.made, lambda *_: self.made(answer)
        try:
            merge(store, partition)
        finally:
            self.faults.made = before

    def replicate(
        self,
        store: DeltaStore,
        partition: int,
        count: int,
        answer: Callable[[], str] = lambda: "ok",
    ) -> None:
        """The next records of the topic, from the end that the table has."""
        begin = store.snapshot((partition,)).replicated(partition)
        offsets = range(begin or 0, (begin or 0) + count)
        records = [(f"id{each % 2}", append(each, each + 1)) for each in offsets]
        commits = []

        def commit(*_: Any) -> str:
            commits.append(1)
            self.versions.note_commit(self.now)
            self.now.rows |= {(partition, each) for each in offsets}
            self.now.ends[partition] = offsets.stop
            return self.made(answer)

        before, self.faults.made = self.faults.made, commit
        try:
            store.commit(
                [Batch(partition=partition, begin=begin, end=offsets.stop, records=records)]
            )
            assert len(commits) == 1, "the replicator believes that it is stored"
        finally:
            self.faults.made = before

    def made(self, answer: Callable[[], str]) -> str:
        """A commit was made: what the process hears of it."""
        self.compare()
        return answer()

    # -- other programs

    def other(self, name: str, where: Any) -> None:
        """Another program, which is never interrupted."""
        self.versions.note(self.now)
        if not DeltaTable.is_deltatable(str(self.path)):
            return
        table = DeltaTable(self.path)
        if name in ("append", "merge"):
            try:
                self.operate(DeltaStore(self.root, "t", None), name, where, 1, lambda: "ok")
            except StoreError:
                assert not self.now.is_whole
        elif name == "optimize":
            removed = table.optimize.compact()["numFilesRemoved"]
            self.now.is_whole = self.now.is_whole and not removed
        elif name == "vacuum":
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        elif name == "restore":
            self.restore(0 if where == EMPTY else where)
        elif name == "delete":
            self.delete(table, where)
        elif name == "columns":
            column = Field(f"more{table.version()}", PrimitiveType("string"))
            table.alter.add_columns([column])
        self.compare()

    def delete(self, table: DeltaTable, where: str) -> None:
        table.delete(where)
        if where == "partition = 0":
            self.now.rows = {row for row in self.now.rows if row[0] != 0}
            self.now.ends.pop(0, None)
            return
        is_gone = (lambda at: at == 1) if where == "offset = 1" else (lambda at: at > 2)
        self.now.rows = {row for row in self.now.rows if not is_gone(row[1])}

    def restore(self, version: int) -> bool:
        """False: it is the newest version, or VACUUM has deleted its files."""
        found = self.versions.restored(version)
        self.now = self.now if found is None else found
        return found is not None

    # -- what has to hold

    def look(self) -> None:
        """The process finds ends and events; of a table that it refuses, a person restores one."""
        self.compare()
        try:
            ends = DeltaStore(self.root, "t", None).snapshot((0, 1))
            for p in (0, 1):
                offsets = sorted(at for partition, at in self.now.rows if partition == p)
                assert ends.replicated(p) == self.now.ends.get(p)
                assert [at.offset for part in ends.history(p) for _, at in part] == offsets
                last = {f"id{at % 2}": at for at in offsets}
                found = {key: ends.outline(p, key).last for key in ("id0", "id1")}
                assert {key: at.offset for key, at in found.items() if at} == last
        except StoreError:
            assert not self.now.is_whole
            wholes = [at for at, each in enumerate(self.versions.known) if each.is_whole]
            if self.restore(wholes[-1]):
                self.compare()
            else:
                self.start()

    def compare(self) -> None:
        """The newest version has the model's rows, each of them once."""
        rows = DeltaTable(self.path).to_pyarrow_dataset().to_table(["partition", "offset"])
        found = sorted(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))
        assert found == sorted(self.now.rows)
        self.versions.note(self.now)


def test_each_event_is_stored_once_whatever_comes_between() -> None:
    run_machine(Stores, 12, 8)


@pytest.mark.slow
def test_no_history_of_many_has_an_event_twice() -> None:
    run_machine(Stores, 150, 12, is_random=True)
