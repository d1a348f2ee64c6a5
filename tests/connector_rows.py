"""The connector's features as rows, and which tests hold which row: tests/connector_rows.txt.

There a row is `N. feature`, and below it, indented, its tests as `path::name`, and why where it is
not there (`no: …`, without a test) or not all of it is (`not: …`, beside tests).
`tests/generate_docs.py` writes docs/reference/connector.md from this.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROWS_FILE = ROOT / "tests" / "connector_rows.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One row: tests, or a `no`."""

    number: int
    statement: str
    tests: tuple[str, ...]
    without: str = ""
    """What of it is not there and why."""


def features(text: str | None = None) -> list[Feature]:
    """Every row, in order. Raises ValueError for a line that is none."""
    found: list[Feature] = []
    for line in (text if text is not None else ROWS_FILE.read_text()).splitlines():
        row = re.fullmatch(r"(\d+)\. (.+)", line)
        below = re.fullmatch(r"  (?:(no|not): (.+)|(tests/\S+::test_\w+))", line)
        if row:
            found.append(Feature(number=int(row[1]), statement=row[2], tests=()))
        elif below and found:
            found[-1] = _with(found[-1], below)
        else:
            raise ValueError(f"no row of features: {line!r}")
    return found


def _with(feature: Feature, below: "re.Match[str]") -> Feature:
    tests = (*feature.tests, below[3]) if below[3] else feature.tests
    without = f"{below[1]}: {below[2]}" if below[1] else feature.without
    return Feature(number=feature.number, statement=feature.statement, tests=tests, without=without)


def missing_tests(feature: Feature) -> list[str]:
    """Those that are named and not there."""
    return [test for test in feature.tests if not is_there(test)]


def is_there(test: str) -> bool:
    """Does the file have a test of this name, a function of a module?"""
    path, _, name = test.partition("::")
    return name in _functions(ROOT / path)


@cache
def _functions(path: Path) -> frozenset[str]:
    if not path.is_file():
        return frozenset()
    return frozenset(
        node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)
    )
