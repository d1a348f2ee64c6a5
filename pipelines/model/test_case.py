"""A validated test of a pipeline file: given records and expected rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
    """A given record. `value` None: a null value. `batch`: its micro-batch, from 1 on; only a
    Python class with a state gets batches one by one."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: datetime
    headers: tuple[tuple[str, bytes], ...] = ()
    batch: int = 1


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

    def batches(self) -> list[Case]:
        """The test as one of each of its batches, in their order; one without records, too."""
        every = [record for records in self.given.values() for record in records]
        numbers = sorted({record.batch for record in every}) or [1]
        return [replace(self, given=self._of_batch(number)) for number in numbers]

    def _of_batch(self, number: int) -> dict[str, tuple[Record, ...]]:
        return {
            source: tuple(record for record in records if record.batch == number)
            for source, records in self.given.items()
        }

    @property
    def clock_ms(self) -> int:
        """The time of a clock that goes by the records: that of the newest one."""
        times = [each.timestamp for records in self.given.values() for each in records]
        return max((round(at.timestamp() * 1000) for at in times), default=0)
