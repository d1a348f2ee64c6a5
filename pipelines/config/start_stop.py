"""Reader of a source's partitions, `start` and `stop`.

Like every reader, it records problems and continues with harmless values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from josefine_broker.base.ids import TopicPartition
from pipelines.base.errors import Problem
from pipelines.config.loader import Items, Scalar, Table
from pipelines.config.output_paths import place_in
from pipelines.config.section import Reader, nearest, shown
from pipelines.config.source_keywords import SOURCES
from pipelines.config.units import time_ms
from pipelines.model.pipeline import End, Source, Start

VERSION = "version"
"""The keyword of Delta tables alone (`table_stream.py`)."""
TABLE = "table"
"""The start at the end offsets of the sink's table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """The topics of a source, and their partitions if it does not read all."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()


def partitions_of(reader: Reader) -> tuple[TopicPartition, ...]:
    """The partitions below `assign`."""
    table = reader.table_of("assign")
    found: list[TopicPartition] = []
    if table is not None and not table.nodes:
        reader.wrong_at("assign", f"expected {SOURCES['source']['assign'].expected}")
    for topic, node in (table.nodes if table else {}).items():
        if not isinstance(node, Items) or not node.nodes:
            message = f"expected a list of partitions such as [0, 2]; found {shown(node)}"
            reader.problem(node.place, node.path, message)
            continue
        for item in node.nodes:
            number = item.value if isinstance(item, Scalar) else None
            if isinstance(item, Scalar) and item.is_unknown:
                continue
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                message = f"expected a partition's number, from 0 on; found {shown(item)}"
                reader.problem(item.place, item.path, message)
            elif TopicPartition(topic, number) in found:
                reader.problem(item.place, item.path, f"`{number}` is listed twice")
            else:
                found.append(TopicPartition(topic, number))
    return tuple(sorted(found))


def start_of(reader: Reader, reads: Reads) -> Start:
    """The start of a source section."""
    if not isinstance(reader.table.nodes.get("start"), Table):
        text = reader.choice("start") or "earliest"
        return Start(option="startingOffsets", text=text, by_table=text == TABLE)
    start = reader.section_of("start")
    assert start is not None
    known = [word for word in SOURCES["start"] if word != VERSION]
    given = [word for word in known if start.has(word)]
    if len(given) != 1 or start.has(VERSION):
        words = ", ".join(known)
        reader.wrong_at("start", f"expected exactly one of {words}")
        return Start(option="startingOffsets", text="earliest")
    if given == ["timestamp"]:
        return Start(option="startingTimestamp", text=str(time_ms(start, "timestamp") or 0))
    if given == ["group"]:
        name = start.text("group")
        return Start(option="startingGroup", text=name or "", group=name)
    if given == ["offsets"]:
        offsets = offsets_of(start, reads)
        return Start(option="startingOffsets", text=_as_json(offsets), offsets=offsets)
    if given == ["last"]:
        return Start(option="startingOffsets", text=f"last {start.positive('last') or 1}")
    return Start(option="startingOffsets", text=f"{start.duration_ms('ago') or 1}ms ago")


def _as_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets in the format of the connector's options."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {})[str(number)] = offset
    return json.dumps(by_topic)


def end_of(reader: Reader, reads: Reads) -> End | None:
    """The end of a run, below `stop`; None: the end offsets at the start of the run."""
    if not isinstance(reader.table.nodes.get("stop"), Table):
        reader.choice("stop")
        return None
    stop = reader.section_of("stop")
    assert stop is not None
    given = [word for word in SOURCES["stop"] if stop.has(word)]
    if len(given) != 1:
        reader.wrong_at("stop", f"expected exactly one of {', '.join(SOURCES['stop'])}")
        return None
    if given == ["timestamp"]:
        return End(time_ms=time_ms(stop, "timestamp") or 0)
    if given == ["group"]:
        return End(group=stop.text("group") or "")
    if given == ["offsets"]:
        return End(offsets=offsets_of(stop, reads))
    return End(ago_ms=stop.duration_ms("ago") or 1)


def stop_problems(
    sources: Mapping[str, Source], every_ms: int | None, tree: Table
) -> Iterator[Problem]:
    """Refuse `stop` for a run that has no end."""
    for source in sources.values():
        if source.stop is not None and every_ms is not None:
            place, path = place_in(tree, "sources", source.name, "stop")
            message = "`stop` ends a run, and with `trigger.every` or `fresh` a run has no end: "
            message += "expected `available_now: true` or `once: true`, or no `stop`"
            yield Problem(place=place, path=path, message=message)


def offsets_of(reader: Reader, reads: Reads) -> dict[TopicPartition, int]:
    """The offsets of the partitions below `offsets`."""
    table = reader.table_of("offsets")
    found: dict[TopicPartition, int] = {}
    for topic, node in (table.nodes if table else {}).items():
        assert table is not None
        path = f"{table.path}.{topic}"
        wrong = _not_read(topic, reads)
        if wrong:
            reader.problem(table.key_places[topic], path, wrong)
        if not isinstance(node, Table) or not node.nodes:
            message = f"expected a mapping of partition: offset; found {shown(node)}"
            reader.problem(node.place, path, message)
            continue
        for number, value in node.nodes.items():
            if not re.fullmatch(r"\d{1,9}", number):
                message = f"expected a partition's number, from 0 on; found `{number}`"
                reader.problem(node.key_places[number], value.path, message)
                continue
            partition = TopicPartition(topic, int(number))
            if reads.assigned and not wrong and partition not in reads.assigned:
                message = f"this source does not read {partition}: it is not in `assign`"
                reader.problem(node.key_places[number], value.path, message)
            offset = value.value if isinstance(value, Scalar) else None
            if isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0:
                found[partition] = offset
            # An unknown variable may hold a valid offset, so it is not reported.
            elif not (isinstance(value, Scalar) and value.is_unknown):
                message = f"expected an offset, a whole number from 0 on; found {shown(value)}"
                reader.problem(value.place, value.path, message)
    missing = [topic for topic in reads.topics if table and topic not in table.nodes]
    missing += [
        str(tp) for tp in reads.assigned if table and tp.topic not in missing and tp not in found
    ]
    if missing:
        message = f"expected the offsets of each topic; missing: {', '.join(missing)}"
        reader.wrong_at("offsets", message)
    return found


def _not_read(topic: str, reads: Reads) -> str:
    """Why a source does not read a topic; "" if it does or if that is unknown."""
    topics, pattern = reads.topics, reads.pattern
    if topics and topic not in topics:
        hint = nearest(topic, topics) or f"; expected one of: {', '.join(topics)}"
        return f"this source does not read topic `{topic}`{hint}"
    try:
        if pattern is None or re.fullmatch(pattern, topic):
            return ""
    except re.error:
        return ""
    return f"topic `{topic}` is not of the pattern `{pattern}`"
