"""What a run of the areas found, as JSON lines: one line per case, one file per area.

A case is what a broken run repeats as a whole. A line that a killed run left half written is
skipped, so that its case runs again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

OURS = "josefine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measure of a case: each side's value of every round.

    `x` is its place on the plot's axis (bytes, connections, ...), None where it has none; `row`
    names the line of the table that it belongs to.
    """

    name: str
    unit: str
    row: str = ""
    x: float | None = None
    values: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Under which a case was measured."""

    date: str
    commit: str
    machine: str
    versions: str
    load: float
    """Average of runnable processes in the minute before, those of others too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """`peer` is the other side's name; `missing` the reason why it has no values."""

    area: str
    case: str
    peer: str
    missing: str = ""
    quick: bool = False
    conditions: Conditions
    measures: tuple[Measured, ...]


def to_line(result: CaseResult) -> str:
    return json.dumps(asdict(result), separators=(",", ":"))


def of_line(line: str) -> CaseResult:
    """Raises ValueError, KeyError or TypeError for a line that `to_line` did not write."""
    found = json.loads(line)
    measures = tuple(
        Measured(**{**each, "values": {side: tuple(v) for side, v in each["values"].items()}})
        for each in found["measures"]
    )
    return CaseResult(
        **{**found, "conditions": Conditions(**found["conditions"]), "measures": measures}
    )


def append(folder: Path, result: CaseResult) -> None:
    """Onto the area's file, whose last line may be half of one."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{result.area}.jsonl").open("a+") as file:
        file.seek(0)
        text = file.read()
        broken = bool(text) and not text.endswith("\n")
        file.write(("\n" if broken else "") + to_line(result) + "\n")


def load(folder: Path) -> list[CaseResult]:
    """All cases by area and by when they were written; of a case that was measured twice the last
    one, in its first place."""
    found: dict[tuple[str, str], CaseResult] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for result in _of_text(path.read_text()):
            found[result.area, result.case] = result
    return list(found.values())


def _of_text(text: str) -> Iterable[CaseResult]:
    for line in text.splitlines():
        try:
            yield of_line(line)
        except (ValueError, KeyError, TypeError):
            continue


def publish(results: Iterable[CaseResult], folder: Path) -> None:
    """Put these cases in the place of what was published of them; others stay."""
    by_area: dict[str, dict[str, CaseResult]] = {}
    for result in (*load(folder), *results):
        by_area.setdefault(result.area, {})[result.case] = result
    folder.mkdir(parents=True, exist_ok=True)
    for area, by_case in by_area.items():
        cases = by_case.values()
        text = "".join(to_line(case) + "\n" for case in cases)
        (folder / f"{area}.jsonl").write_text(text)
