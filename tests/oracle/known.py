"""Known differences between this broker and Apache Kafka; COMPATIBILITY.md has them as tables.

A row that a whole run does not use has to go: the difference is fixed, or the row was never right.
"""

from __future__ import annotations

from tests.oracle.compare import Difference
from tests.oracle.known_kept import KEPT
from tests.oracle.known_open import OPEN
from tests.oracle.row import Known
from tests.oracle.shapes import Tree

KNOWN: tuple[Known, ...] = (*KEPT, *OPEN)


def explanation(api: str, request: Tree, difference: Difference) -> Known | None:
    """The first row that fits."""
    return next((row for row in KNOWN if row.explains(api, request, difference)), None)
