"""Where a source begins, and where a run of it ends, as a pipeline file says it.

As all readers it notes what is wrong and goes on with harmless values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from josefine_broker.base.ids import TopicPartition
from josefine_spark.topic_offsets import nested
from pipelines.errors import Problem
from pipelines.loader import Scalar, Table
from pipelines.model import End, Source, Start
from pipelines.paths import place_in
from pipelines.reader import Reader, nearest, shown
from pipelines.source_vocabulary import SOURCES
from pipelines.units import time_ms

TABLE = "table"
"""The start that is where the sink's table ends."""


def start_of(reader: Reader, topics: tuple[str, ...], pattern: str | None) -> Start:
    """Where the source of a table begins, which reads these topics."""
    if not isinstance(reader.table.nodes.get("start"), Table):
        text = reader.choice("start") or "earliest"
        return Start(option="startingOffsets", text=text, by_table=text == TABLE)
    start = reader.section_of("start")
    assert start is not None
    given = [word for word in SOURCES["start"] if start.has(word)]
    if len(given) != 1:
        words = ", ".join(SOURCES["start"])
        reader.wrong_at("start", f"expected exactly one of {words}")
        return Start(option="startingOffsets", text="earliest")
    if given == ["timestamp"]:
        return Start(option="startingTimestamp", text=str(time_ms(start, "timestamp") or 0))
    if given == ["group"]:
        name = start.text("group")
        return Start(option="startingGroup", text=name or "", group=name)
    if given == ["offsets"]:
        offsets = offsets_of(start, topics, pattern)
        text = json.dumps(nested(offsets))
        return Start(option="startingOffsets", text=text, offsets=offsets)
    if given == ["last"]:
        return Start(option="startingOffsets", text=f"last {start.positive('last') or 1}")
    return Start(option="startingOffsets", text=f"{start.duration_ms('ago') or 1}ms ago")


def end_of(reader: Reader, topics: tuple[str, ...], pattern: str | None) -> End | None:
    """Where a run of the source ends, below `stop`; None: at what is there."""
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
        return End(offsets=offsets_of(stop, topics, pattern))
    return End(ago_ms=stop.duration_ms("ago") or 1)


def stop_problems(
    sources: Mapping[str, Source], every_ms: int | None, tree: Table
) -> Iterator[Problem]:
    """Ends of a run that has none."""
    for source in sources.values():
        if source.stop is not None and every_ms is not None:
            place, path = place_in(tree, "sources", source.name, "stop")
            message = "`stop` ends a run, and with `trigger.every` a run has no end: expected "
            message += "`available_now: true` or `once: true`, or no `stop`"
            yield Problem(place=place, path=path, message=message)


def offsets_of(
    reader: Reader, topics: tuple[str, ...], pattern: str | None
) -> dict[TopicPartition, int]:
    """The offset of each partition below `offsets`, of the topics that the source reads."""
    table = reader.table_of("offsets")
    found: dict[TopicPartition, int] = {}
    for topic, node in (table.nodes if table else {}).items():
        assert table is not None
        path = f"{table.path}.{topic}"
        wrong = _not_read(topic, topics, pattern)
        if wrong:
            reader.problem(table.key_places[topic], path, wrong)
        if not isinstance(node, Table) or not node.nodes:
            message = f"expected a table of partition: offset; found {shown(node)}"
            reader.problem(node.place, path, message)
            continue
        for number, value in node.nodes.items():
            if not re.fullmatch(r"\d{1,9}", number):
                message = f"expected a partition's number, from 0 on; found `{number}`"
                reader.problem(node.key_places[number], value.path, message)
                continue
            offset = value.value if isinstance(value, Scalar) else None
            if isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0:
                found[TopicPartition(topic, int(number))] = offset
            elif not (isinstance(value, Scalar) and value.is_unknown):
                message = f"expected an offset, a whole number from 0 on; found {shown(value)}"
                reader.problem(value.place, value.path, message)
    missing = [topic for topic in topics if table and topic not in table.nodes]
    if missing:
        message = f"expected the offsets of each topic; missing: {', '.join(missing)}"
        reader.wrong_at("offsets", message)
    return found


def _not_read(topic: str, topics: tuple[str, ...], pattern: str | None) -> str:
    """Why a source reads no such topic; "" where it does, or nobody can say."""
    if topics and topic not in topics:
        hint = nearest(topic, topics) or f"; expected one of: {', '.join(topics)}"
        return f"this source does not read topic `{topic}`{hint}"
    try:
        if pattern is None or re.fullmatch(pattern, topic):
            return ""
    except re.error:
        return ""
    return f"topic `{topic}` is not of the pattern `{pattern}`"
