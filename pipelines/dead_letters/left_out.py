"""Records that a sink leaves out because an expression fails for them (`on_error: dead_letter`).

Pure. Rules: the dead letter of such a record is committed before the sink's rows, with the sink's
name, so another sink may have the record's rows. The sink's own commit lists the records that it
left out. So a replay needs no digest of the file to find what the table lacks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from josefine_broker.base.ids import TopicPartition

RECORDS_MAX = 1_000
"""Records that a sink leaves out of one micro-batch. More are an error of the file rather than of
single records; each one costs a dozen jobs, and the sink's commit lists all of them."""

LEFT_OUT = "left_out"
"""The key of the list in the sink's commit."""


class Stage(Enum):
    """The step of a pipeline that does not take a record; in the dead letter's column `stage`."""

    DECODE = "decode"  # key or value do not match `decode`
    CHECK = "check"  # a check sends it, or its condition fails
    TRANSFORM = "transform"  # an expression or a function of a transform fails
    MERGE = "merge"  # the arithmetic of a merge fails
    STORE = "store"  # a value does not fit the table's type


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FailedRecord:
    """One record with the step that fails for it."""

    topic: str
    partition: int
    offset: int
    stage: str = field(compare=False)
    reason: str = field(compare=False)

    @property
    def place(self) -> tuple[str, int, int]:
        return self.topic, self.partition, self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What a sink leaves out of one micro-batch. `of_checks`: check → the records for which its
    node fails. No check can send those, so its dead letters are made without them."""

    records: tuple[FailedRecord, ...] = ()
    of_checks: Mapping[str, Collection[tuple[str, int, int]]] = field(default_factory=dict)

    @property
    def places(self) -> list[tuple[str, int, int]]:
        return sorted(each.place for each in self.records)

    def to_json(self) -> dict[str, dict[str, list[int]]]:
        """Topic → partition → offsets, for the sink's commit."""
        found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for topic, partition, offset in self.places:
            found[topic][str(partition)].append(offset)
        return {topic: dict(of) for topic, of in found.items()}


NOTHING_LEFT_OUT = LeftOut()


def listed(said: Mapping[str, Any]) -> set[tuple[TopicPartition, int]]:
    """The records that a sink's commit lists; none in a commit without the list."""
    return {
        (TopicPartition(topic, int(number)), offset)
        for topic, of in said.get(LEFT_OUT, {}).items()
        for number, offsets in of.items()
        for offset in offsets
    }


def joined(one: Iterable[FailedRecord], other: Iterable[FailedRecord]) -> tuple[FailedRecord, ...]:
    """Both, each record once with its first reason."""
    found: dict[tuple[str, int, int], FailedRecord] = {}
    for each in (*one, *other):
        found.setdefault(each.place, each)
    return tuple(sorted(found.values()))


def own_chain(source: str, sink: str) -> str:
    """The name of the chain of a sink's own dead letters. A dot is in no sink's name."""
    return f"dead_letter.{source}.{sink}"
