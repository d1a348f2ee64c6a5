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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import PrimitiveType
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from josefine_journal.delta_store import DeltaStore
from josefine_journal.errors import Overtaken, StoreError
from josefine_journal.merging import FAN_IN, merge
from josefine_journal.ports import Batch
from tests.unit.josefine_journal.test_delta_store import append

CALLS = ("create_write_transaction", "update_incremental", "get_add_actions")
OTHERS_MAX = 3
"""Of one operation."""
EMPTY = -9
"""Of `restore`: the version without any row."""
PARTITIONS = st.sampled_from([0, 1])
OTHERS = st.one_of(
    st.just(("nothing", 0)),
    st.just(("nothing", 0)),
    st.tuples(st.just("append"), PARTITIONS),
    st.tuples(st.just("append"), PARTITIONS),
    st.just(("optimize", 0)),
    st.tuples(st.just("merge"), PARTITIONS),
    st.just(("vacuum", 0)),
    st.tuples(st.just("restore"), st.sampled_from([-1, -1, -3, EMPTY])),
    st.tuples(st.just("delete"), st.sampled_from(["offset = 1", "offset > 2", "partition = 0"])),
    st.just(("columns", 0)),
)
"""Before the first attempt of a commit."""
LATE = st.sampled_from([("nothing", 0), ("nothing", 0), ("optimize", 0), ("append", 1)]) | OTHERS
"""After it: most of what can go wrong needs two of them."""
ANSWERS = st.sampled_from(["ok", "ok", "ok", "conflict", "failure", "killed"])
"""What a process hears of a commit that was made."""


class Killed(BaseException):
    """No handler of the product runs."""


@dataclass
class Version:
    """What a version of the table has."""

    rows: set[tuple[int, int]] = field(default_factory=set)
    """(partition, offset)"""
    ends: dict[int, int] = field(default_factory=dict)
    is_whole: bool = True
    """Not after an OPTIMIZE, which takes the ends away."""

    def copy(self) -> Version:
        return Version({*self.rows}, {**self.ends}, self.is_whole)


FIRST = tempfile.TemporaryDirectory()
"""A table that each of the machine's runs starts with."""


class Stores(RuleBasedStateMachine):
    """One table. Mutable: its store, and what each version should have."""

    first: list[Version] | None = None
    """The versions of `FIRST`."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.patch = pytest.MonkeyPatch()
        self.tables = 0
        self.interrupt: Callable[[str], None] | None = None
        self.commit: Callable[[], str] | None = None
        for name in CALLS:
            self.patch.setattr(DeltaTable, name, self.watched(name))
        self.start()

    def teardown(self) -> None:
        self.patch.undo()
        self.folder.cleanup()

    def start(self) -> None:
        """A copy of the first table, in which a merge of partition 0 is due."""
        self.tables += 1
        self.root = Path(self.folder.name, str(self.tables))
        self.path, self.now = self.root / "t", Version()
        self.versions: list[Version] = []
        self.store = DeltaStore(self.root, "t", None)
        if Stores.first is None:
            for at in range(FAN_IN + 1):
                self.replicate(self.store, at // FAN_IN, 1)
            Stores.first = [*self.versions]
            shutil.copytree(self.path, FIRST.name, dirs_exist_ok=True)
        else:
            shutil.copytree(FIRST.name, self.path)
            self.versions, self.now = [*Stores.first], Stores.first[-1].copy()

    def watched(self, name: str) -> Callable[..., Any]:
        """The method of delta-rs, before which others come, and whose answer may be lost."""
        called = getattr(DeltaTable, name)

        def call(*args: Any, **more: Any) -> Any:
            interrupt, commit = self.interrupt, self.commit
            if interrupt is not None:
                self.interrupt = None
                try:
                    interrupt(name)
                finally:
                    self.interrupt = interrupt
            found = called(*args, **more)
            if name == "create_write_transaction" and commit is not None:
                answer = commit()
                if answer == "conflict":
                    raise CommitFailedError("the answer was lost")
                if answer == "failure":
                    raise DeltaError("the answer was lost")
                if answer == "killed":
                    raise Killed
            return found

        return call

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
        came: list[str] = []
        calls: list[str] = []

        def others(name: str) -> None:
            calls.append(name)
            attempts = calls.count(CALLS[0])
            if attempts and len(came) < OTHERS_MAX:
                is_first = calls[-1] == CALLS[0] and attempts == 1
                other, where = data.draw(OTHERS if is_first else LATE, f"before {name}")
                if other != "nothing":
                    came.append(other)
                    self.other(other, where)

        def answer() -> str:
            found: str = data.draw(ANSWERS, "answer")
            return found

        self.interrupt = others
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
            self.interrupt = None
        self.look()

    def operate(
        self, store: DeltaStore, what: str, partition: int, count: int, answer: Callable[[], str]
    ) -> None:
        """Raises Overtaken, StoreError, OSError, Killed."""
        if what == "append":
            self.replicate(store, partition, count, answer)
            return
        before, self.commit = self.commit, lambda: self.made(answer)
        try:
            merge(store, partition)
        finally:
            self.commit = before

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

        def commit() -> str:
            commits.append(1)
            self.note(DeltaTable(self.path).version())
            self.now.rows |= {(partition, each) for each in offsets}
            self.now.ends[partition] = offsets.stop
            return self.made(answer)

        before, self.commit = self.commit, commit
        try:
            store.commit(
                [Batch(partition=partition, begin=begin, end=offsets.stop, records=records)]
            )
            assert len(commits) == 1, "the replicator believes that it is stored"
        finally:
            self.commit = before

    def made(self, answer: Callable[[], str]) -> str:
        """A commit was made: what the process hears of it."""
        self.compare()
        return answer()

    # -- other programs

    def other(self, name: str, where: Any) -> None:
        """Another program, which is never interrupted."""
        self.note()
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
            self.restore(0 if where == EMPTY else max(0, table.version() + where))
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
        try:
            DeltaTable(self.path).restore(version)
        except DeltaError:
            return False
        self.now = self.versions[version].copy()
        return True

    # -- what has to hold

    def look(self) -> None:
        """The process finds the ends; of a table that it refuses, a person restores a version."""
        self.compare()
        try:
            ends = DeltaStore(self.root, "t", None).snapshot((0, 1))
            assert {p: ends.replicated(p) for p in (0, 1)} == {
                p: self.now.ends.get(p) for p in (0, 1)
            }
        except StoreError:
            assert not self.now.is_whole
            wholes = [at for at, each in enumerate(self.versions) if each.is_whole]
            if self.restore(wholes[-1]):
                self.compare()
            else:
                self.start()

    def compare(self) -> None:
        """The newest version has the model's rows, each of them once."""
        interrupt, self.interrupt = self.interrupt, None
        rows = DeltaTable(self.path).to_pyarrow_dataset().to_table(["partition", "offset"])
        found = sorted(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))
        assert found == sorted(self.now.rows)
        self.note()
        self.interrupt = interrupt

    def note(self, end: int | None = None) -> None:
        """All versions since the last call, or those before `end`, are as the model is now."""
        if DeltaTable.is_deltatable(str(self.path)):
            end = DeltaTable(self.path).version() + 1 if end is None else end
            self.versions += [self.now.copy() for _ in range(end - len(self.versions))]


def test_each_event_is_stored_once_whatever_comes_between() -> None:
    run_state_machine_as_test(
        Stores,
        settings=settings(
            max_examples=12,
            stateful_step_count=8,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
        ),
    )
