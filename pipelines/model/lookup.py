"""A lookup table: a Delta table that transforms join with a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.base.errors import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Exactly one of `path` and `table` is set. `schema`: its columns as in SQL.

    `rows`: replace the table in a test; an empty list where only columns matter.
    """

    name: str
    place: Place
    path: str | None
    table: str | None
    schema: str
    rows: tuple[Mapping[str, Any], ...] | None = None

    @property
    def told(self) -> str:
        """Its path or name; "" if it contains a secret."""
        return self.path or self.table or ""
