"""A validated test of a pipeline file: given records and expected rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from pipelines.base.errors import Place


def json_text(value: Any) -> str:
    """A value as JSON; a Decimal is a number with all its digits."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)}: {json_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(json_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A given record. `value` None: a null value."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: datetime
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The expected rows of a node, or the expected dead letters. `rows`: None if only their number
    is checked. `is_subset`: columns that no row names may have any value. `places`: column → the
    place of its first use."""

    node: str
    place: Place
    rows: tuple[Mapping[str, Any], ...] | None = None
    count: int | None = None
    is_subset: bool = False
    path: str = ""
    places: Mapping[str, Place] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test of the file: given records of sources, given rows of lookup tables, and expected
    rows."""

    name: str
    place: Place
    given: Mapping[str, tuple[Record, ...]]
    expected: tuple[Expectation, ...]
    tables: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
