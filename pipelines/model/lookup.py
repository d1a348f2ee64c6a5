"""A Delta table that transforms join the stream with, as the file says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.base.errors import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Exactly one of `path` and `table` is set. `schema`: its columns as in SQL.

    `rows`: what is there in its place, in a test or, none, where only columns count.
    """

    name: str
    place: Place
    path: str | None
    table: str | None
    schema: str
    rows: tuple[Mapping[str, Any], ...] | None = None

    @property
    def told(self) -> str:
        """Where it is; "" where a secret is part of it."""
        return self.path or self.table or ""
