"""Faults of a program that writes a Delta table by delta-rs, for state machines of Hypothesis.

Other programs come before any of its calls; the answer of a commit may be lost, and the process may
be killed then. The model is what each version of the table has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.simulation.mutating import Breaks, mutated

T = TypeVar("T")

COMMIT = "create_write_transaction"
CALLS = (COMMIT, "update_incremental", "get_add_actions")
OTHERS_MAX = 3
"""Of one operation."""
EARLY = ("nothing", "nothing", "nothing", "any")
EARLY_AGAIN = ("nothing", "common")
FIRST = ("nothing", "any")
LATE = ("nothing", "nothing", "common", "common", "any")
Other = tuple[str, Any]
"""What another program does, and with what."""
ANSWERS = st.sampled_from(["ok", "conflict", "ok", "conflict", "failure", "killed"])
"""What a process hears of a commit that was made."""


class Killed(BaseException):
    """No handler of the product runs."""


class Faults:
    """Mutable: what comes before the next calls, and what is heard of a commit."""

    def __init__(self) -> None:
        self.before: Callable[[str], None] | None = None
        """Called with the name of a method before each of its calls."""
        self.made: Callable[..., str] | None = None
        """Called with a commit's arguments after it; its answer."""
        self._patch = pytest.MonkeyPatch()
        self._wrong: AssertionError | None = None
        """Of a check, which a handler of the product may have caught."""

    def watch(self, owner: Any, *names: str, commits: tuple[str, ...] = (COMMIT,)) -> None:
        """Watch the calls of these functions of a class or a module."""
        for name in names:
            watched = self._watched(getattr(owner, name), name, is_commit=name in commits)
            self._patch.setattr(owner, name, watched)

    def stop(self) -> None:
        """Nothing comes, and every answer is heard. Raises what a check has raised since."""
        self.before = self.made = None
        wrong, self._wrong = self._wrong, None
        if wrong is not None:
            raise wrong

    def end(self) -> None:
        """Watch nothing any more."""
        self._patch.undo()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """For other programs and for checks, which nobody interrupts."""
        was, self.before, self.made = (self.before, self.made), None, None
        try:
            yield
        except AssertionError as error:
            self._wrong = error
            raise
        finally:
            self.before, self.made = was

    def _watched(
        self, called: Callable[..., Any], name: str, *, is_commit: bool
    ) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            if self.before is not None:
                before = self.before
                with self.quiet():
                    before(name)
            found = called(*args, **more)
            if is_commit and self.made is not None:
                made = self.made
                with self.quiet():
                    answer = made(*args[1:])
                _hear(answer)
            return found

        return call


def _hear(answer: str) -> None:
    if answer == "conflict":
        raise CommitFailedError("the answer was lost")
    if answer == "failure":
        raise DeltaError("the answer was lost")
    if answer == "killed":
        raise Killed


def others_between(
    faults: Faults,
    data: st.DataObject,
    others: st.SearchStrategy[Other],
    common: Sequence[Other],
    do: Callable[[str, Any], None],
    *,
    is_early: bool = False,
) -> list[str]:
    """Let others come before the calls of the next operation, from the first attempt of a commit
    on, or from its start if it `is_early`. After that attempt, or the first of them, often those
    that are `common`: most of what can go wrong needs two of them. The names of those that came,
    also while they come."""
    came: list[str] = []
    calls: list[str] = []

    def before(name: str) -> None:
        calls.append(name)
        attempts = calls.count(COMMIT)
        if len(came) == OTHERS_MAX or not (attempts or is_early):
            return
        is_first = name == COMMIT and attempts == 1
        early = EARLY_AGAIN if came else EARLY
        times = FIRST if is_first else LATE if attempts else early
        kind = data.draw(st.sampled_from(times), f"before {name}")
        if kind != "nothing":
            strategy = others if kind == "any" else st.sampled_from(common)
            other, where = data.draw(strategy, f"before {name}")
            came.append(other)
            do(other, where)

    faults.before = before
    return came


class Versions(Generic[T]):
    """What each version of a table has, by the model. Mutable."""

    def __init__(self, path: Path, known: list[T] | None = None) -> None:
        self.path = path
        self.known = [*known] if known else []

    def note(self, now: T, end: int | None = None) -> None:
        """All versions since the last call, or those before `end`, are as the model is now."""
        if DeltaTable.is_deltatable(str(self.path)):
            end = DeltaTable(self.path).version() + 1 if end is None else end
            self.known += [deepcopy(now) for _ in range(end - len(self.known))]

    def note_commit(self, now: T) -> None:
        """As `note`, before the model gets what the newest version has."""
        self.note(now, DeltaTable(self.path).version())

    def restored(self, version: int) -> T | None:
        """RESTORE to a version, a negative one from the newest; what it has. None: it is the newest
        one, or VACUUM has deleted its files."""
        table = DeltaTable(self.path)
        version = max(0, table.version() + version) if version < 0 else version
        try:
            table.restore(version)
        except DeltaError:
            return None
        return deepcopy(self.known[version])


def run_machine(
    machine: type[RuleBasedStateMachine], examples: int, steps: int, *, is_random: bool = False
) -> None:
    """Runs of a machine: always the same ones, or others each time."""
    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=not is_random,
        database=None,
        phases=[Phase.generate],
    )
    run_state_machine_as_test(machine, settings=how)


def require_caught(
    machine: type[RuleBasedStateMachine], mutant: Breaks, examples: int, steps: int
) -> None:
    """Fail unless some of these runs notice the wrong line."""
    with mutated(mutant):
        try:
            run_machine(machine, examples, steps)
        except (Exception, pytest.fail.Exception):
            return
    pytest.fail("nobody noticed")
