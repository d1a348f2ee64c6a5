"""Marks of issue 34: what is measured of the whole product, in the order of the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import ceil
from typing import Any

from tests.changed import module_of, names_of
from tests.shape.arrows import Arrows, cycles, folder_cycles, upward
from tests.shape.first_look import QUESTIONS, Question, looks
from tests.shape.sources import ATTRIBUTES_MAX, LONG_FUNCTION, Facts

COMMENTED = {
    "engine": ("josefine_broker/engine/*",),
    "exactly_once": ("pipelines/exactly_once/*", "josefine_spark/write/exactly_once.py"),
    "recovery": ("josefine_broker/host/log/recovery.py", "raft/blockfile.py"),
    "kernels": ("josefine_arrow/*kernels.py",),
}  # fmt: skip
"""Part whose share of comments is measured → its files, as patterns: `*` is any text, `/` too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One row of the table."""

    name: str
    value: float
    goal: str = ""
    """What issue 34 asks for."""
    listed: tuple[str, ...] = ()
    """What is counted, one place a line."""
    step: float = 1
    """Its limit is recorded in these steps: room for a mark that every change moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """What is measured: a path is that of a file below the repository's root."""

    facts: Mapping[str, Facts]
    arrows: Arrows
    contracts: Sequence[Mapping[str, Any]]
    """Those of import-linter in pyproject.toml."""
    unit_tests: Mapping[str, str]
    """Path → text of each file below tests/unit."""


class StalePath(Exception):
    """A table of the measures names a file that is not there."""


def marks(product: Product, file_lines_max: int) -> list[Mark]:
    """Every mark. Raises StalePath."""
    return [
        *arrow_marks(product.arrows, product.contracts),
        *size_marks(product.facts, file_lines_max),
        *comment_marks(product.facts),
        *untested_marks(product.facts, product.unit_tests),
        *look_marks(product.facts),
    ]


def arrow_marks(arrows: Arrows, contracts: Sequence[Mapping[str, Any]]) -> list[Mark]:
    """Cycles, and arrows against the layers."""
    modules, folders = cycles(arrows), folder_cycles(arrows)
    against = upward(arrows, contracts)
    return [
        Mark(name="import cycles between modules", value=len(modules), goal="0",
             listed=tuple(" <-> ".join(group) for group in modules)),
        Mark(name="import cycles between folders", value=len(folders), goal="0",
             listed=tuple(" <-> ".join(group) for group in folders)),
        Mark(name="upward arrows", value=len(against), goal="0", listed=tuple(against)),
    ]  # fmt: skip


def size_marks(facts: Mapping[str, Facts], file_lines_max: int) -> list[Mark]:
    """Lengths of functions, files and packages, and large classes."""
    lengths = [function.length for each in facts.values() for function in each.functions]
    long_files = [path for path, each in facts.items() if each.lines > file_lines_max]
    large = large_classes(facts)
    packages = {path.partition("/")[0] for path in facts}
    return [
        Mark(name=f"mutable classes above {ATTRIBUTES_MAX} attributes", value=len(large), goal="0",
             listed=tuple(f"{place}: {count}" for place, count in sorted(large.items()))),
        Mark(name="function length, 95th percentile", value=percentile(lengths, 95), goal="27",
             step=5),
        Mark(name=f"files above {file_lines_max} lines", value=len(long_files), goal="0",
             listed=tuple(sorted(long_files))),
        Mark(name="product lines", value=sum(each.lines for each in facts.values()),
             goal="100000", step=1000),
        *(
            Mark(name=f"lines of {package}", value=sum(
                each.lines for path, each in facts.items() if path.startswith(f"{package}/")
            ))
            for package in sorted(packages)
        ),
    ]  # fmt: skip


def large_classes(facts: Mapping[str, Facts]) -> dict[str, int]:
    """`path::Class` → its attributes, for mutable classes that have too many."""
    return {
        f"{path}::{each.name}": each.attributes
        for path, measured in facts.items()
        for each in measured.classes
        if each.is_mutable and each.attributes > ATTRIBUTES_MAX
    }


def percentile(values: Iterable[int], percent: int) -> int:
    """The smallest value that at least so many percent of them do not exceed; 0 without any."""
    ordered = sorted(values)
    return ordered[ceil(len(ordered) * percent / 100) - 1] if ordered else 0


def comment_marks(facts: Mapping[str, Facts]) -> list[Mark]:
    """Long functions without a comment, and the share of comments where it is hardest to read."""
    silent = [
        f"{path}:{function.line}: {function.name}, {function.length} lines"
        for path, each in sorted(facts.items())
        for function in each.functions
        if function.length >= LONG_FUNCTION and not function.has_comment
    ]
    return [
        Mark(name=f"functions of {LONG_FUNCTION}+ lines without a comment", value=len(silent),
             goal="0", listed=tuple(silent)),
        *(
            Mark(name=f"% comments and docstrings, {part}", value=commented(facts, patterns),
                 goal="20")
            for part, patterns in COMMENTED.items()
        ),
    ]  # fmt: skip


def commented(facts: Mapping[str, Facts], patterns: Iterable[str]) -> float:
    """Percent of lines that are docstring or have a comment. Raises StalePath."""
    measured: dict[str, Facts] = {}
    for pattern in patterns:
        found = {path: each for path, each in facts.items() if fnmatchcase(path, pattern)}
        if not found:
            raise StalePath(f"tests/shape/marks.py: COMMENTED names '{pattern}', and no file is so")
        measured |= found
    lines = sum(each.lines for each in measured.values())
    return round(100 * sum(each.commented_lines for each in measured.values()) / max(lines, 1), 1)


def untested_marks(facts: Mapping[str, Facts], unit_tests: Mapping[str, str]) -> list[Mark]:
    """Modules that no file below tests/unit imports itself, for each package.

    A module of kernels is imported by a string with its name (`josefine_arrow.cache.kernels`).
    """
    names = [names_of(text) for text in unit_tests.values()]
    imported = {name for each in names for name in each.modules}
    imported |= {name for each in names for name in each.strings if name.endswith("kernels")}
    without: dict[str, list[str]] = {path.partition("/")[0]: [] for path in sorted(facts)}
    for path in sorted(facts):
        if not path.endswith("/__init__.py") and module_of(path) not in imported:
            without[path.partition("/")[0]].append(path)
    return [
        Mark(name=f"modules of {package} that no unit test imports", value=len(paths), goal="0",
             listed=tuple(paths))
        for package, paths in without.items()
    ]  # fmt: skip


def look_marks(facts: Mapping[str, Facts], questions: Sequence[Question] = QUESTIONS) -> list[Mark]:
    """Files that a reader opens for each question, and their mean. Raises StalePath."""
    rows: list[Mark] = []
    for each in questions:
        if each.file not in facts:
            raise StalePath(f"tests/shape/first_look.py: QUESTIONS names '{each.file}': it is gone")
        found = looks(each.words, each.file, facts)
        row = f"{each.asked} '{each.words}' -> {each.file}"
        rows.append(Mark(name=f"looks: {each.words}", value=found, goal="1.1", listed=(row,)))
    mean = round(sum(row.value for row in rows) / len(rows), 2)
    return [Mark(name="first look, files a question", value=mean, goal="1.1", step=0.25), *rows]
