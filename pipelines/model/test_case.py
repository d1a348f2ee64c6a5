"""A test of a pipeline file after validation: records that are given, rows that are expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pipelines.base.errors import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record that a test gives. `value` None: it has none."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: datetime
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a test expects of a node, or of the dead letters. `rows`: None where only their number
    counts. `is_subset`: columns that no row names may have any value."""

    node: str
    place: Place
    rows: tuple[Mapping[str, Any], ...] | None = None
    count: int | None = None
    is_subset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test of the file: given these records of these sources, and these rows of the tables
    that they are joined with, that is there."""

    name: str
    place: Place
    given: Mapping[str, tuple[Record, ...]]
    expected: tuple[Expectation, ...]
    tables: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
