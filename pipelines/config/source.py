"""Reader of one source of a pipeline file: its topics, start, batch limits and decoding.

Like every reader, it records problems and continues with harmless values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pipelines.base.errors import Problem
from pipelines.config.decode import decodes_of
from pipelines.config.loader import Table
from pipelines.config.output_paths import folder, place_in
from pipelines.config.records import record_of
from pipelines.config.section import Reader
from pipelines.config.security import settings_of
from pipelines.config.source_keywords import SOURCES, TYPES
from pipelines.config.start_stop import Reads, end_of, partitions_of, start_of
from pipelines.config.table_stream import table_stream_of
from pipelines.config.topic import NO_TOPIC, TOPIC, address_of
from pipelines.config.units import size_bytes
from pipelines.model.pipeline import Limit, Local, Source, Split, Start
from pipelines.model.test_case import Record


def source_of(name: str, reader: Reader) -> Source:
    """The source of a section."""
    kind = reader.chosen("type", TYPES, "josefine")
    if kind == "delta":
        return table_stream_of(name, reader)
    if kind not in OF_BROKERS:
        return _local(name, kind, reader)
    bootstrap = address_of(reader, required=True)
    topics = reader.texts("topics")
    for topic in topics:
        if not TOPIC.fullmatch(topic):
            reader.wrong_at("topics", f"`{topic}` {NO_TOPIC}")
    pattern = reader.text("pattern")
    if pattern:
        try:
            re.compile(pattern)
        except re.error as error:
            reader.wrong_at("pattern", f"`{pattern}` is not a valid regular expression: {error}")
    assigned = partitions_of(reader)
    reader.exactly_one()
    # Assigned partitions name their topics: the rest of the model asks for topics alone.
    topics = topics or tuple(dict.fromkeys(each.topic for each in assigned))
    reads = Reads(topics=topics, pattern=pattern, assigned=assigned)
    limit = reader.section_of("limit")
    value, key = decodes_of(reader)
    return Source(
        name=name,
        place=reader.table.place,
        bootstrap=bootstrap or "",
        topics=topics,
        pattern=pattern,
        start=start_of(reader, reads),
        limit=_limit(limit) if limit else Limit(),
        split=_split(reader),
        committed_only=reader.choice("isolation") == "read_committed",
        headers=reader.flag("headers"),
        decode=value,
        decode_key=key,
        skips_losses=reader.choice("on_data_loss") == "skip_and_record",
        stop=end_of(reader, reads),
        assigned=assigned,
        archive=reader.choice("archive") or "broker",
        commit_group=reader.text("commit_group"),
        security=settings_of(reader),
    )


def group_problems(sources: Mapping[str, Source], tree: Table) -> Iterator[Problem]:
    """Refuse a consumer group that two sources would both commit to."""
    first: dict[str, str] = {}
    for source in sources.values():
        other = first.setdefault(source.commit_group or "", source.name)
        if source.commit_group and other != source.name:
            place, path = place_in(tree, "sources", source.name, "commit_group")
            message = f"`{source.commit_group}` is the group of source `{other}`: a group each"
            yield Problem(place=place, path=path, message=message)


OF_BROKERS = ("josefine", "kafka")
"""Types of sources that are read over Kafka's protocol: same reader, same keywords."""

_STARTS: Mapping[str, tuple[str, ...]] = {
    "file": ("earliest", "latest"),
    "rate": ("latest", "last", "ago", "timestamp"),
    "memory": ("earliest", "latest", "last"),
}
"""Type of a local source → its possible starts, the default first."""


def _local(name: str, kind: str, reader: Reader) -> Source:
    """A source without a broker."""
    before = len(reader.problems)
    start = (
        start_of(reader, Reads())
        if reader.has("start")
        else Start(option="", text=_STARTS[kind][0])
    )
    said = reader.table.nodes.get("start")
    words = [*said.nodes] if isinstance(said, Table) else [start.text]
    words = words if len(reader.problems) == before else []  # it has its problem already
    for word in words:
        if word not in _STARTS[kind]:
            expected = ", ".join(_STARTS[kind])
            reader.wrong_at("start", f"no `{word}` with type {kind}; expected one of: {expected}")
    limit = reader.section_of("limit")
    own = "bytes" if kind == "file" else "rows"
    for word in limit.table.nodes if limit else ():
        if limit and word != own and word in SOURCES["limit"]:
            limit.wrong_at(word, f"no `{word}` with type {kind}; expected `{own}`")
    path = reader.text("path", required=kind == "file")
    if path and "://" in path:
        reader.wrong_at("path", "expected a folder or a pattern of files on this machine")
    rate = reader.positive("rows_per_second", required=kind == "rate")
    value, key = decodes_of(reader)
    records: tuple[Record, ...] = ()
    if kind == "memory":
        tables = reader.tables("records")
        records = tuple(
            record_of(Reader(table, "record", reader.problems), name, number, value, key)
            for number, table in enumerate(tables)
        )
        for table in tables:
            if "offset" in table.nodes:
                node = table.nodes["offset"]
                reader.problem(node.place, node.path, "offsets are counted: leave it out")
        if not tables:
            reader.table_of("records", required=True)
    return Source(
        name=name,
        place=reader.table.place,
        bootstrap="",
        topics=(),
        pattern=None,
        start=start,
        limit=_limit(limit) if limit else Limit(),
        split=Split(),
        headers=reader.flag("headers"),
        decode=value,
        decode_key=key,
        local=Local(
            type=kind, path=folder(path) if path else "", rows_per_second=rate or 1, records=records
        ),
    )


def _limit(reader: Reader) -> Limit:
    rows, least = reader.positive("rows"), reader.positive("min_rows")
    if rows is not None and least is not None and least > rows:
        reader.wrong_at(
            "min_rows", f"{least} is more than `rows`, {rows}: no batch can satisfy both"
        )
    if reader.has("max_delay") and not reader.has("min_rows"):
        reader.wrong_at("max_delay", "`min_rows` is missing, which it ends the waiting for")
    return Limit(
        rows=rows,
        bytes=size_bytes(reader, "bytes"),
        rows_min=least,
        delay_ms=reader.duration_ms("max_delay"),
    )


def _split(source: Reader) -> Split:
    reader = source.section_of("split")
    if reader is None:
        return Split()
    return Split(rows=reader.positive("rows"), tasks_min=reader.positive("min_tasks"))
