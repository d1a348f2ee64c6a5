"""A table of snapshots among other programs: each row is stored once, and none returns.

Two processes save, delete and read, and merge files meanwhile. Others come before any of their
calls of delta-rs, with rows and merges of their own, or with OPTIMIZE, VACUUM, RESTORE, DELETE, new
columns, properties and another version of the layout; a commit's answer may be lost, and the
process may be killed after it or at any step. The model is a dict of the snapshots of each version;
the table, as any reader of Delta finds it, is compared with it after every single commit.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from josefine_journal import entity_snapshots, merging, snapshot_table, store_commit
from josefine_journal.actions import PayloadType
from josefine_journal.entity_snapshots import ALL, Row, Saved, deleted, replaced, there
from josefine_journal.errors import Overtaken, StoreError
from josefine_journal.snapshot_table import FOLDER, VERSION, VERSION_KEY, SnapshotTable
from tests.simulation.mutating import Mutant
from tests.support.delta_faults import (
    ANSWERS,
    CALLS,
    Faults,
    Killed,
    Versions,
    others_between,
    require_caught,
    run_machine,
)

KEPT = 2
LONG = "k" * 300
"""It has no statistics in the log."""
KEYS = st.sampled_from(["a", "b", LONG])
NUMBERS = st.integers(0, 3)
"""Of a snapshot that is saved; 0: all are deleted."""
PROCESSES = st.sampled_from([0, 1])
STEPS = st.sampled_from(
    [""] * 8 + ["before_files", "before_commit", "after_commit", "before_merge_commit"]
)
"""At which a process is killed."""
EMPTY = 0
"""Of `restore`: the version without any row."""
RETENTION = "delta.logRetentionDuration"
OTHERS = st.one_of(
    st.tuples(st.just("put"), st.tuples(KEYS, NUMBERS)),
    st.tuples(st.just("put"), st.tuples(KEYS, NUMBERS)),
    st.just(("merge", 0)),
    st.just(("optimize", 0)),
    st.just(("vacuum", 0)),
    st.tuples(st.just("restore"), st.sampled_from([-1, -1, -3, EMPTY])),
    st.tuples(st.just("forget"), KEYS),
    st.just(("columns", 0)),
    st.just(("retention", 0)),
    st.just(("newer", 0)),
)
COMMON = [("merge", 0), ("put", ("a", 0)), ("vacuum", 0)]


@dataclass
class Version:
    """What a version of the table has."""

    there: dict[str, dict[str, Saved]] = field(default_factory=dict)
    """Journal → row id → its snapshot."""
    layout: int = VERSION

    def put(self, row: Row) -> None:
        of_key = self.there.get(row.key, {})
        left = {row_id: saved for row_id, saved in of_key.items() if row_id not in row.gone}
        self.there[row.key] = left | ({} if row.saved is None else {row.id: row.saved})


FIRST = tempfile.TemporaryDirectory()
"""A table that each of the machine's runs starts with: the next row but one makes a merge due."""


class Snapshots(RuleBasedStateMachine):
    """One table. Mutable: its processes, and what each version should have."""

    first: list[Version] | None = None
    """The versions of `FIRST`."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        # Those below are in the first table.
        self.ids = count(0 if Snapshots.first is None else merging.FAN_IN)
        self.clock = count(time.time_ns() // 1_000_000)
        self.tables = 0
        self.faults = Faults()
        self.faults.watch(DeltaTable, *CALLS)
        self.faults.watch(snapshot_table, "_rows")
        self.start()

    def teardown(self) -> None:
        self.faults.end()
        self.folder.cleanup()

    def start(self) -> None:
        """A copy of the first table."""
        self.tables += 1
        self.root = Path(self.folder.name, str(self.tables))
        self.path = self.root / FOLDER / "t"
        self.now, self.versions = Version(), Versions[Version](self.path)
        self.processes = [self.process(), self.process()]
        if Snapshots.first is None:
            self.create()
            for number in range(1, merging.FAN_IN):
                self.put_of_others("a", number)
                self.versions.note(self.now)
            Snapshots.first = [*self.versions.known]
            shutil.copytree(self.path, FIRST.name, dirs_exist_ok=True)
        else:
            shutil.copytree(FIRST.name, self.path)
            self.versions = Versions(self.path, Snapshots.first)
            self.now = deepcopy(Snapshots.first[-1])

    def create(self) -> None:
        self.process()._created()
        self.versions.note(self.now)

    def process(self) -> SnapshotTable:
        return SnapshotTable(self.root, "t")

    def row(self, table: SnapshotTable, key: str, number: int) -> tuple[Row, int]:
        """A row that saves a snapshot, or deletes all, and its time. Raises StoreError."""
        found, at_ms, row_id = table.rows(key), next(self.clock), f"{next(self.ids):06}"
        if not number:
            return Row(key=key, id=row_id, gone=deleted(found, ALL)), at_ms
        saved = Saved(
            seq_nr=number,
            timestamp_ms=at_ms,
            payload_type=PayloadType.JSON,
            value=row_id.encode(),
        )
        return Row(key=key, id=row_id, saved=saved, gone=replaced(found, saved, KEPT)), at_ms

    # -- operations of the processes

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Others, and a merge that is due."""
        self.put(data, 0, "a", 1, "")

    @rule(data=st.data(), at=PROCESSES, key=KEYS, number=NUMBERS, step=STEPS)
    def put(self, data: st.DataObject, at: int, key: str, number: int, step: str) -> None:
        table = self.processes[at]
        row, at_ms = self.row(table, key, number)
        commits: list[str] = []

        def made(actions: list[Any], *_: Any) -> str:
            assert self.now.layout == VERSION, "a table of another version was written"
            if any(isinstance(each, AddAction) and each.data_change for each in actions):
                commits.append(row.id)
                self.versions.note_commit(self.now)
                self.now.put(row)
            self.compare()
            answer: str = data.draw(ANSWERS, "answer")
            return answer

        came = others_between(self.faults, data, OTHERS, COMMON, self.other)
        self.faults.made, table.at = made, killed_at(step)
        try:
            table.put(row, at_ms)
            assert commits, "the process believes that it is stored"
        except Killed:
            self.processes[at] = self.process()
        except (Overtaken, StoreError, OSError):
            # Of a table of another version or other rules, or of files that are gone.
            assert came
        finally:
            self.faults.stop()
        assert len(commits) <= 1, "a row was committed twice"
        self.processes[at].at = lambda step: None
        self.look()

    @rule(data=st.data(), at=PROCESSES, key=KEYS)
    def read(self, data: st.DataObject, at: int, key: str) -> None:
        """The snapshots are those of a version that was the newest one during the call."""
        seen = [self.found(key)]

        def other(name: str, where: Any) -> None:
            self.other(name, where)
            seen.append(self.found(key))

        came = others_between(self.faults, data, OTHERS, COMMON, other, is_early=True)
        try:
            assert sorted(there(self.processes[at].rows(key)), key=str) in seen
        except StoreError:
            assert {"vacuum", "newer", "restore"} & {*came}
        finally:
            self.faults.stop()
        self.look()

    @rule()
    def replace(self) -> None:
        """Somebody deletes the table, and another process makes a new one, which is longer."""
        versions = DeltaTable(self.path).version()
        shutil.rmtree(self.path)
        self.now, self.versions = Version(), Versions(self.path)
        self.create()
        while DeltaTable(self.path).version() <= versions:
            self.other("put", ("b", 1))
        self.look()

    # -- other programs

    def other(self, name: str, where: Any) -> None:
        """Another program, which is never interrupted."""
        self.versions.note(self.now)
        if name == "put":
            self.put_of_others(*where)
        elif name == "merge":
            self.merge_of_others()
        elif name == "restore":
            found = self.versions.restored(where)
            self.now = self.now if found is None else found
        else:
            self.change(DeltaTable(self.path), name, where)
        self.compare()

    def change(self, table: DeltaTable, name: str, where: str) -> None:
        if name == "optimize":
            table.optimize.compact()
        elif name == "vacuum":
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        elif name == "forget":
            table.delete(f"key = '{where}'")
            self.now.there.pop(where, None)
        elif name == "columns":
            table.alter.add_columns([Field(f"more{table.version()}", PrimitiveType("string"))])
        elif name == "retention":
            table.alter.set_table_properties({RETENTION: f"{table.version()} days"})
        elif name == "newer":
            self.set_layout(VERSION + 1)

    def set_layout(self, version: int) -> None:
        properties = {VERSION_KEY: str(version)}
        table = DeltaTable(self.path)
        table.alter.set_table_properties(properties, raise_if_not_exists=False)
        self.now.layout = version

    def put_of_others(self, key: str, number: int) -> None:
        table = self.process()
        if self.now.layout != VERSION:
            with pytest.raises(StoreError, match="use a newer one"):
                table.rows(key)
            return
        row, at_ms = self.row(table, key, number)
        table.put(row, at_ms)
        self.now.put(row)

    def merge_of_others(self) -> None:
        if self.now.layout == VERSION:
            self.process()._merge(next(self.clock))

    # -- what has to hold

    def found(self, key: str) -> list[tuple[str, Saved]]:
        return sorted(self.now.there.get(key, {}).items(), key=str)

    def look(self) -> None:
        """A person sets the version back; then each process has the newest snapshots."""
        self.compare()
        if self.now.layout != VERSION:
            for each in self.processes:
                with pytest.raises(StoreError, match="use a newer one"):
                    each.rows("a")
            self.set_layout(VERSION)
            self.compare()
        for each in self.processes:
            for key in ("a", "b", LONG):
                assert sorted(there(each.rows(key)), key=str) == self.found(key)

    def compare(self) -> None:
        """The newest version has each row once, and with them the model's snapshots."""
        found = DeltaTable(self.path).to_pyarrow_dataset().to_table().to_pylist()
        rows = [snapshot_table._row(each) for each in found]
        assert max(Counter(row.id for row in rows).values(), default=1) == 1
        for key in ("a", "b", LONG):
            of_key = there(row for row in rows if row.key == key)
            assert sorted(of_key, key=str) == self.found(key)
        self.versions.note(self.now)


def killed_at(step: str) -> Callable[[str], None]:
    def at(reached: str) -> None:
        if reached == step:
            raise Killed

    return at


EXAMPLES, LENGTH = 9, 8


def test_each_row_is_stored_once_whatever_comes_between() -> None:
    run_machine(Snapshots, EXAMPLES, LENGTH)


@pytest.mark.slow
def test_no_history_of_many_has_a_row_twice() -> None:
    run_machine(Snapshots, 60, 12, is_random=True)


MUTANTS = (
    Mutant(
        breaks="a commit whose answer was lost is found in the log",
        function=store_commit.commit,
        old="commit_id in each",
        new="False",
    ),
    Mutant(
        breaks="a merge is not put on top of a RESTORE, nor where others have removed its files",
        function=store_commit.commit,
        old="removed <= there and not",
        new="not",
    ),
    Mutant(
        breaks="a table that is open is checked again when others have changed it",
        function=SnapshotTable._refreshed,
        old="if self._table.version() != version:",
        new="if version == -1:",
    ),
    Mutant(
        breaks="a table that was replaced is opened again",
        function=SnapshotTable._refreshed,
        old="stamp_of(self._entry(version)) != stamp",
        new="not self._entry(version).exists()",
    ),
    Mutant(
        breaks="a merge brings no deleted snapshot back",
        function=entity_snapshots.least,
        old="None if row.id in gone else row.saved",
        new="row.saved",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_broken_rule_is_caught(mutant: Mutant) -> None:
    require_caught(Snapshots, mutant, 40, LENGTH)
