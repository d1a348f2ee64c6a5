"""A pipeline's table that delta-rs commits, among other programs: each record counts once.

A run appends its batches, or merges them as counts. Before any of its calls of delta-rs, and before
each of its looks at the log, others come: a second run of the same pipeline, appends of others,
OPTIMIZE, VACUUM, RESTORE, DELETE, properties, columns and rules. A commit's answer may be lost, and
the process may die after it or at a failpoint. The model is what each version has; the table, as
any reader of Delta finds it, is compared with it after every single commit, and the next run has to
start where the model ends. No Spark: pyarrow writes its files.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from pipelines.model.direct_merge import Fold
from pipelines.sinks import commits
from pipelines.sinks.commits import StoppedError
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.direct_table import CameBetweenError, DirectTable, FailedError, NotDirectError
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
from tests.unit.pipelines.sinks.test_direct_rows import ARROW, FOLD, Run, key_of

EMPTY = 0
"""Of `restore`: the version without any row."""
OTHERS = st.one_of(
    st.tuples(st.just("rival"), st.integers(0, 3)),
    st.just(("append", 0)),
    st.just(("append", 0)),
    st.just(("optimize", 0)),
    st.just(("vacuum", 0)),
    st.tuples(st.just("restore"), st.sampled_from([-1, -1, -2, EMPTY])),
    st.tuples(st.just("delete"), st.sampled_from(["k0", "k1"])),
    st.just(("property", 0)),
    st.just(("column", 0)),
    st.just(("rule", 0)),
)
COMMON = [("rival", 1), ("rival", 2), ("optimize", 0), ("append", 0)]
DEATHS = st.sampled_from([None] * 6 + [1, 2])
"""The failpoint at which the process dies."""
STOPS = {"rival", "restore"}


@dataclass
class Version:
    """What a version of the table has."""

    rows: Counter[str] = field(default_factory=Counter)
    """Key → how many records of it were counted."""
    end: int = 0
    """The end offset of the pipeline's commits."""
    rules: set[str] = field(default_factory=set)
    """Of others, that are for Spark."""


class Direct(RuleBasedStateMachine):
    """One table. Mutable: the run, and what each version should have."""

    fold: Fold | None = None

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.patch = pytest.MonkeyPatch()
        self.faults = Faults()
        self.faults.watch(DeltaTable, *CALLS)
        self.faults.watch(DeltaChain, "_own_after")
        self.runs, self.keys = count(), count()
        self.came: set[str] = set()
        """Who came since the run was opened."""
        self.start()

    def teardown(self) -> None:
        self.faults.end()
        self.patch.undo()
        self.folder.cleanup()

    def start(self) -> None:
        """A table with two commits."""
        self.path = Path(self.folder.name, f"t{next(self.runs)}")
        self.now, self.versions = Version(), Versions[Version](self.path)
        self.restart()
        self.versions.note(self.now)
        for size in (3, 2):
            self.batch_of(self.run, size)

    def opened(self, patch: Any = None) -> Run:
        """A new process: its chain is where the table is."""
        run = Run(self.path, f"run {next(self.runs)}", self.fold, patch or self.patch)
        assert run.end == self.now.end, "the next start reads other records"
        return run

    def batch_of(self, run: Run, size: int) -> None:
        """A batch that nothing disturbs."""
        end = self.now.end + size
        run.batch(size)
        self.counted(end)
        self.versions.note(self.now)

    def counted(self, end: int) -> None:
        """The records up to an offset are in the table."""
        self.now.rows += Counter(map(key_of, range(self.now.end, end)))
        self.now.end = end

    # -- the run

    @rule(data=st.data(), size=st.integers(0, 4), death=DEATHS)
    def batch(self, data: st.DataObject, size: int, death: int | None) -> None:
        end, made = self.now.end + size, list[int]()

        def commit(*_: Any) -> str:
            made.append(end)
            assert not self.now.rules, "the table's rules are for Spark"
            self.versions.note_commit(self.now)
            self.counted(end)
            self.compare()
            answer: str = data.draw(ANSWERS, "answer")
            return answer

        came = others_between(self.faults, data, OTHERS, COMMON, self.other, is_early=True)
        self.faults.made = commit
        is_there, is_over = False, True
        try:
            self.run.batch(size, dies_at(death))
            is_there, is_over = True, False
        except Killed:
            pass
        except StoppedError:
            assert STOPS & {*came, *self.came}
        except NotDirectError:
            # Spark would write the batch now.
            assert not made
            assert came or self.now.rules
        except (CameBetweenError, FailedError, OSError):
            # Others came before each attempt, or VACUUM deleted what was to be merged.
            assert not made
            assert came
        finally:
            self.faults.stop()
        assert len(made) <= 1, "a batch was committed twice"
        assert len(made) == 1 or not is_there, "the run believes that it is stored"
        self.compare()
        self.came |= {*came}
        if is_over:
            self.repair()
            self.restart()

    @rule()
    def restart(self) -> None:
        self.run, self.came = self.opened(), set()

    # -- other programs

    def other(self, name: str, where: Any) -> None:
        """Another program, which is never interrupted."""
        self.versions.note(self.now)
        table = DeltaTable(self.path)
        if name == "rival":
            self.rival(where)
        elif name == "append":
            key = f"x{next(self.keys)}"
            self.append(table, key)
        elif name == "optimize":
            table.optimize.compact()
        elif name == "vacuum":
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        elif name == "restore":
            found = self.versions.restored(where)
            self.now = self.now if found is None else found
        elif name == "delete":
            self.delete(table, where)
        else:
            self.alter(table, name)
        self.compare()

    def rival(self, size: int) -> None:
        """A second run of the same pipeline, such as a fail-over."""
        if not self.now.rules:
            with pytest.MonkeyPatch.context() as patch:
                self.batch_of(self.opened(patch), size)

    def append(self, table: DeltaTable, key: str) -> None:
        if not self.now.rules:
            rows = pa.Table.from_pylist([{"k": key, "n": 1}], ARROW)
            write_deltalake(self.path, rows, mode="append")
            self.now.rows[key] += 1

    def delete(self, table: DeltaTable, key: str) -> None:
        table.delete(f"k = '{key}'")
        del self.now.rows[key]

    def alter(self, table: DeltaTable, name: str) -> None:
        if name == "property":
            owner = {"owner": f"{table.version()}"}
            table.alter.set_table_properties(owner, raise_if_not_exists=False)
        elif name == "column":
            table.alter.add_columns([Field(f"more{table.version()}", PrimitiveType("string"))])
            self.now.rules.add("column")
        elif name == "rule" and "rule" not in self.now.rules:
            table.alter.add_constraint({"some": "n > -1"})
            self.now.rules.add("rule")

    def repair(self) -> None:
        """A person takes a column or a rule away: the table from before it, or a new one."""
        if self.now.rules:
            plain = [at for at, each in enumerate(self.versions.known) if not each.rules]
            found = self.versions.restored(plain[-1])
            if found is None:
                self.start()
            else:
                self.now = found

    # -- what has to hold

    def compare(self) -> None:
        """The newest version has the model's rows, and a merged table each key once."""
        rows = DeltaTable(self.path).to_pyarrow_dataset().to_table(["k", "n"]).to_pylist()
        found: Counter[str] = Counter()
        for row in rows:
            found[row["k"]] += row["n"]
        assert found == self.now.rows
        if self.fold is not None:
            assert len(found) == len(rows)
        self.versions.note(self.now)


class DirectMerges(Direct):
    fold = FOLD


def dies_at(death: int | None) -> Callable[..., None]:
    def hit(name: str, index: int | None = None) -> None:
        if death is not None and (name, index) == ("mid_direct", death):
            raise Killed

    return hit


EXAMPLES, LENGTH = 20, 8
BOTH = pytest.mark.parametrize("machine", [Direct, DirectMerges], ids=["append", "merge"])


@BOTH
def test_each_record_counts_once_whatever_comes_between(machine: type[Direct]) -> None:
    run_machine(machine, EXAMPLES, LENGTH)


@pytest.mark.slow
@BOTH
def test_no_history_of_many_counts_a_record_twice(machine: type[Direct]) -> None:
    run_machine(machine, 150, 12, is_random=True)


MUTANTS = (
    Mutant(
        breaks="a commit whose answer was lost is found in the log",
        function=commits.is_ours,
        old="== (link.run, *made)",
        new="== ()",
    ),
    Mutant(
        breaks="a run looks at what came after its own commit",
        function=DeltaChain._own_after,
        old="own or entries[-1]",
        new="entries[-1]",
    ),
    Mutant(
        breaks="a restored table stops the run",
        function=DeltaChain._own_after,
        old='entry.operation == "RESTORE"',
        new="False",
    ),
    Mutant(
        breaks="a commit is made only onto the version that was looked at",
        function=DirectTable._at,
        old="self._table.version() != version:",
        new="self._table.version() < version:",
    ),
    Mutant(
        breaks="a rule of others is for Spark",
        function=DirectTable.check,
        old="if found != self._checked:",
        new="if self._checked is None:",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_broken_rule_is_caught(mutant: Mutant) -> None:
    require_caught(Direct, mutant, 400, LENGTH)
