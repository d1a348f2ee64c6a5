"""The plan of a reset of a group's offsets: it resolves targets to existing offsets.

Rules: nothing is changed here; a target before the first record of a partition or after its last
one is clamped, as in Kafka, and reported (`asked` keeps it); a topic that was recreated since a
table was written has other records at the same offsets, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.kafka.offset_spec import AtOffset, Place, resolve

_TOPIC = re.compile(r"([^:]+)(?::(\d+(?:,\d+)*))?")

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Shift:
    """A shift of the committed offsets by this many records, backwards if negative."""

    records: int


@dataclass(frozen=True, slots=True)
class TableEnd:
    """The end offsets of the Delta table in this folder."""

    folder: Path


Target = Place | Shift | TableEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The move of one partition, from its committed offset (None: none) to another."""

    tp: TopicPartition
    committed: int | None
    asked: int
    earliest: int
    latest: int

    @property
    def to(self) -> int:
        return min(max(self.asked, self.earliest), self.latest)

    @property
    def note(self) -> str:
        """Why the target was clamped; empty: it was not."""
        if self.asked < self.earliest:
            return f"{self.asked} is deleted: earliest"
        return f"{self.asked} is not written yet: latest" if self.asked > self.latest else ""


def parse_topic(text: str) -> tuple[str, list[int] | None]:
    """`orders`, `orders:0,2`. Raises UsageError."""
    match = _TOPIC.fullmatch(text)
    if match is None:
        raise UsageError(f"--topic '{text}' is not like orders or orders:0,2")
    return match[1], [int(each) for each in match[2].split(",")] if match[2] else None


def partitions_of(
    client: BlockingClient, chosen: Iterable[tuple[str, list[int] | None]]
) -> list[TopicPartition]:
    """The partitions of topics in the form of `parse_topic`. Raises UserError."""
    found: set[TopicPartition] = set()
    for topic, numbers in chosen:
        count = client.partition_count(topic)
        missing = [each for each in numbers or () if each >= count]
        if missing:
            raise UserError(
                f"topic '{topic}' has no partition {missing[0]}: it has {count}, numbered from 0"
            )
        wanted = range(count) if numbers is None else numbers
        found.update(TopicPartition(topic, number) for number in wanted)
    return sorted(found)


def moves(
    client: BlockingClient,
    target: Target,
    committed: Offsets,
    earliest: Offsets,
    latest: Offsets,
) -> list[Move]:
    """One move for each partition of `latest` that `target` covers. Raises UserError."""
    asked = _asked(client, target, committed, earliest, latest)
    return [
        Move(
            tp=tp,
            committed=committed.get(tp),
            asked=asked[tp],
            earliest=earliest[tp],
            latest=latest[tp],
        )
        for tp in sorted(latest)
        if tp in asked
    ]


def _asked(
    client: BlockingClient, target: Target, committed: Offsets, earliest: Offsets, latest: Offsets
) -> Offsets:
    if isinstance(target, Shift):
        missing = sorted(latest.keys() - committed.keys())
        if missing:
            raise UserError(f"--shift-by: nothing is committed for {missing[0]} to shift")
        return {tp: committed[tp] + target.records for tp in latest}
    if isinstance(target, TableEnd):
        return _table_ends(client, target.folder, latest)
    if isinstance(target, AtOffset) and target.offset >= 0:
        return dict.fromkeys(latest, target.offset)
    return resolve(client, target, earliest, latest)


def _table_ends(client: BlockingClient, folder: Path, wanted: Offsets) -> Offsets:
    from pipelines.sinks.delta_end_offsets import table_end

    end = table_end(folder)
    topics = {tp.topic for tp in wanted}
    reached = {tp: at for tp, at in end.ends.items() if tp in wanted}
    if not reached:
        there = ", ".join(sorted({tp.topic for tp in end.ends}))
        raise UserError(f"the table {folder} has read {there}, not {', '.join(sorted(topics))}")
    known = client.metadata(sorted(topics)).topics
    now = {name: str(topic.topic_id) for name, topic in known.items() if topic.topic_id}
    again = sorted(end.recreated(now) & {tp.topic for tp in reached})
    if again:
        raise UserError(
            f"topic '{again[0]}' was created again since the table {folder} was written:"
            " the table's offsets are not valid for it"
        )
    return reached
