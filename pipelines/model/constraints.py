"""CHECK constraints of a sink's table, and the parser of Delta's errors for violated ones. Pure.

Source: Delta's protocol, "CHECK Constraints": a table's setting `delta.constraints.NAME` is the
condition as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

PREFIX = "delta.constraints."

Due = tuple[tuple[str, str], ...]
"""(name, condition) of constraints that a table does not have yet."""

_CHECK = re.compile(r"CHECK constraint (\S+) (.+?) violated by row with values", re.DOTALL)
_GENERATED = re.compile(
    r"CHECK constraint Generated Column (\(?`?(.+?)`? <=> .+?) violated by row with values",
    re.DOTALL,
)
_NOT_NULL = re.compile(r"NOT NULL constraint violated for column: ([^\n]+?)\.?\s*(?:\n|$)")
_TOO_LONG = re.compile(r"exceeds char/varchar type length limitation")
_ROWS = re.compile(r"(\d+) rows? in .+? violate the new CHECK constraint", re.DOTALL)


def due(have: Mapping[str, str], wants: Mapping[str, str]) -> Due | str:
    """The constraints to add to a table with these settings, or why they cannot be added."""
    there = {
        name[len(PREFIX) :].lower(): text for name, text in have.items() if name.startswith(PREFIX)
    }
    for name, text in wants.items():
        if name in there and _plain(there[name]) != _plain(text):
            return (
                f"has a constraint `{name}` already, and it is another one: {_plain(there[name])}, "
                f"the file has {_plain(text)}. Give it another name, or drop the table's (ALTER "
                f"TABLE ... DROP CONSTRAINT {name})"
            )
    return tuple((name, text) for name, text in wants.items() if name not in there)


def broken(text: str) -> str | None:
    """The constraint that a failed write violated, for a message; None: it is another failure. The
    text contains no value of a row."""
    # Delta checks a generated column as a CHECK constraint of this reserved name with a space.
    if found := _GENERATED.search(text):
        said = _plain(found[1])
        return f"generated column `{found[2]}`: its value is not what the table computes, {said}"
    if found := _CHECK.search(text):
        return f"constraint `{found[1]}` {_plain(found[2])}"
    if found := _NOT_NULL.search(text):
        return f"NOT NULL of column `{found[1]}`"
    return "the length of a CHAR or VARCHAR column" if _TOO_LONG.search(text) else None


def rows_against(text: str) -> int | None:
    """The number of rows that violate a new constraint, from the text of the failure."""
    found = _ROWS.search(text)
    return int(found[1]) if found else None


def _plain(text: str) -> str:
    return " ".join(text.split())
