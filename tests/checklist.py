"""The predecessors' capabilities as rows, and which test proves which row.

A test claims a row by the words `Checklist row N` (or `Checklist rows N, M and 7-9`) in its
docstring. A row without a test is listed with its reason, never dropped. `tests/generate_docs.py`
writes docs/reference/checklist.md from this.
"""

import ast
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent
ROWS_FILE = TESTS / "checklist_rows.txt"
CLAIM = re.compile(r"[Cc]hecklist rows? ([0-9][0-9, –-]*(?:and [0-9]+)?)")

LATER: dict[range, str] = {
    range(18, 19): "CreateTopics 0 and 1 are not served: Kafka 4 dropped them (KIP-896)",
    range(29, 30): "the broker sends what it has: the reader verifies, as with Kafka",
    range(
        58, 59
    ): "a pointer behind its events cannot be: rows and replicated offset are one commit",
    range(
        69, 70
    ): "the cache is filled by who asks: nothing to release; a topic keeps its partitions",
    range(72, 73): "of the names those of docs/reference/journal.md: others count nothing here",
    range(96, 97): "ten minutes per parser are run by hand; the HTTP parser is aiohttp's",
}
"""Why a row is open: all of it where no test claims it, else the part that its tests do not prove.
A row that is in no range here must have a test, and its tests prove every word of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One capability: its number in the list, its statement, and the tests that claim it."""

    number: int
    section: str
    statement: str
    tests: tuple[str, ...]

    @property
    def reason(self) -> str | None:
        """Why no test claims the row yet; None when nobody has said why."""
        return next((why for rows, why in LATER.items() if self.number in rows), None)


def claims() -> dict[int, list[str]]:
    """Row number → tests that claim it, as `path::name`, sorted."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                name = getattr(node, "name", "")
                target = path.relative_to(TESTS.parent).as_posix() + (f"::{name}" if name else "")
                for number in claimed_rows(ast.get_docstring(node) or ""):
                    found[number].append(target)
    return found


def claimed_rows(docstring: str) -> list[int]:
    """The row numbers that a docstring names.

    >>> claimed_rows("Checklist rows 3, 5-7 and 9.")
    [3, 5, 6, 7, 9]
    """
    numbers: list[int] = []
    for words in CLAIM.findall(docstring):
        for first, last in re.findall(r"(\d+)(?:\s*[-–]\s*(\d+))?", words):
            numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def rows() -> list[Row]:
    """Every row of the list, in its order."""
    claimed = claims()
    section, result = "", []
    for line in ROWS_FILE.read_text().splitlines():
        if line.startswith("### "):
            section = line[4:]
        elif match := re.match(r"(\d+)\. (.*)", line):
            number = int(match[1])
            tests = tuple(dict.fromkeys(claimed.get(number, ())))
            result.append(Row(number=number, section=section, statement=match[2], tests=tests))
    return result
