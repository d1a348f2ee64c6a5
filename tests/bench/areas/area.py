"""An area of the report: its cases, each measured on every side in alternating rounds.

A side is ours or the peer. Cases yield `(row, measure, unit, value)`; the engine decides the order
of the sides, keeps every round's value, and writes a case once all of its rounds are done.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.report.results import CaseResult, Conditions, Measured

Sample = tuple[str, str, str, float]
"""(row, measure, unit, value)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`quick`: a bounded share of the cases, with less in each. `log_gb`: up to which size logs
    and lags are measured; None: as the area has it."""

    quick: bool = False
    rounds: int = 3
    log_gb: float | None = None

    def of(self, full: float, quick: float) -> float:
        return quick if self.quick else full


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`x`: its place on a plot's axis. `run` measures one side (what `Area.open` yields) once, in
    an empty directory. `rounds_max`: of a case that takes minutes."""

    name: str
    x: float | None = None
    run: Callable[[Any, Path], Iterator[Sample]]
    rounds_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The sides that can be measured, by name, ours first; `missing`: why the peer cannot."""

    sides: Mapping[str, Any]
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """`settings`: the configuration of both sides, in one sentence, and what a figure is.
    `matrix`: the page has a table of its rows by its measures too."""

    name: str
    title: str
    peer: str
    settings: str
    open: Callable[[Path, Options], AbstractContextManager[Opened]]
    cases: Callable[[Options], Sequence[Case]]
    row_title: str = "row"
    matrix: bool = False


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure_area(
    area: Area,
    options: Options,
    directory: Path,
    *,
    only: Collection[str],
    done: Collection[str],
    conditions: Callable[[], Conditions],
    write: Callable[[CaseResult], None],
) -> None:
    """Measure what is not done yet. `only`: names of cases, all when empty."""
    pending = [
        case
        for case in area.cases(options)
        if case.name not in done and (not only or case.name in only)
    ]
    if not pending:
        return
    with area.open(directory, options) as opened:
        if opened.missing:
            say(f"{area.name}: {area.peer} is not measured: {opened.missing}")
        for case in pending:
            before = conditions()
            measures = measure_case(area.name, case, opened.sides, options.rounds, directory)
            write(
                CaseResult(
                    area=area.name, case=case.name, peer=area.peer, missing=opened.missing,
                    quick=options.quick, conditions=before, measures=tuple(measures),
                )
            )  # fmt: skip


def measure_case(
    area: str, case: Case, sides: Mapping[str, Any], rounds: int, directory: Path
) -> list[Measured]:
    """Every round on every side; the sides swap places from round to round."""
    found: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for number in range(min(rounds, case.rounds_max or rounds)):
        for side in order(list(sides), number):
            folder = directory / f"{area}-{case.name}-{number}-{side}".replace("/", "_")
            folder.mkdir(parents=True)
            for row, name, unit, value in case.run(sides[side], folder):
                found[row, name, unit][side].append(value)
                say(f"{area} round {number + 1} {side:9} {row:28} {name:14} {value:14,.3f} {unit}")
    return [
        Measured(
            name=name, unit=unit, row=row or case.name, x=case.x,
            values={side: tuple(each) for side, each in values.items()},
        )
        for (row, name, unit), values in found.items()
    ]  # fmt: skip


def order(sides: Sequence[str], number: int) -> list[str]:
    """Each side is first in every other round."""
    return list(sides if number % 2 == 0 else reversed(sides))
