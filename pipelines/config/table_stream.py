"""Reader of a source of type delta with `stream: true`: a Delta table whose new rows are a stream.

Like every reader, it records problems and continues with harmless values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipelines.base.errors import Problem
from pipelines.config.decode import schema_of
from pipelines.config.loader import Scalar, Table
from pipelines.config.output_paths import place_in
from pipelines.config.section import Reader
from pipelines.config.source_keywords import SOURCES, TYPES
from pipelines.config.units import size_bytes, time_ms
from pipelines.model.lineage import lineage
from pipelines.model.pipeline import (
    Action,
    Limit,
    Local,
    OnError,
    Pipeline,
    Sink,
    Source,
    Split,
    Start,
)
from pipelines.model.table_order import upstream_of
from pipelines.model.table_stream import OnChange, TableStream

OF_STREAMS = ("changes", "on_change", "start", "limit")
"""The keywords of a table that is read as a stream; a lookup table has none of them."""

_LIMITS = ("files", "bytes")
_STARTS = ("version", "timestamp", "ago")
_NO_LETTERS = "its rows are no records, so they make no dead letters"


def is_stream(reader: Reader) -> bool:
    """Whether a section of type delta is a stream."""
    node = reader.table.nodes.get("stream")
    return isinstance(node, Scalar) and node.value is True


def table_stream_of(name: str, reader: Reader) -> Source:
    """The stream of a source section."""
    reader.refuse_others("type", "delta", TYPES)
    if reader.has("table"):
        reader.wrong_at("table", "a stream names its table by `path`: the run looks into its log")
    path = reader.folder("path", required=not reader.has("table"))
    if not reader.has("schema"):
        reader.missing("schema")
    reader.flag("stream")
    # Without a feed of changes a stream sees only new rows; with it, old ones as well.
    changes = reader.flag("changes")
    on_change = OnChange(reader.choice("on_change") or "fail")
    if changes and reader.has("on_change"):
        reader.wrong_at("on_change", "with `changes` deletes and updates are rows: leave it out")
    schema = schema_of(reader).text
    return Source(
        name=name,
        place=reader.table.place,
        bootstrap="",
        topics=(),
        pattern=None,
        start=Start(option="", text="earliest"),
        limit=_limit(reader),
        split=Split(),
        headers=False,
        decode=None,
        local=Local(
            type="delta",
            path=path or "",
            stream=_started(
                TableStream(schema=schema, changes=changes, on_change=on_change), reader
            ),
        ),
    )


def _limit(reader: Reader) -> Limit:
    limit = reader.section_of("limit")
    if limit is None:
        return Limit()
    for word in limit.table.nodes:
        if word not in _LIMITS and word in SOURCES["limit"]:
            limit.wrong_at(word, f"no `{word}` with type delta; expected `files` or `bytes`")
    return Limit(files=limit.positive("files"), bytes=size_bytes(limit, "bytes"))


def _started(stream: TableStream, reader: Reader) -> TableStream:
    """The stream with its `start`; by default the whole table first."""
    expected = f"with type delta; expected earliest, latest, or one of {', '.join(_STARTS)}"
    if not isinstance(reader.table.nodes.get("start"), Table):
        text = reader.choice("start") or "earliest"
        if text not in ("earliest", "latest"):
            reader.wrong_at("start", f"no `{text}` {expected}")
        return replace(stream, latest=text == "latest")
    start = reader.section_of("start")
    assert start is not None
    known = [word for word in start.table.nodes if word in SOURCES["start"]]
    others = [word for word in known if word not in _STARTS]
    if others or len(known) != 1:
        found = f"no `{others[0]}`" if others else f"`{' and '.join(known)}`" if known else "none"
        reader.wrong_at("start", f"{found} {expected}")
        return stream
    if known == ["version"]:
        return replace(stream, version=start.number("version"))
    if known == ["timestamp"]:
        return replace(stream, time_ms=time_ms(start, "timestamp"))
    return replace(stream, ago_ms=start.duration_ms("ago"))


def table_stream_problems(pipeline: Pipeline, tree: Table) -> Iterator[Problem]:
    """Refuse what needs the records of a stream, and tables in a circle."""
    streams = {name for name, source in pipeline.sources.items() if source.table_stream}
    if not streams:
        return
    for sink in pipeline.sinks.values():
        of = next((name for name in lineage(pipeline, sink.input)[0] if name in streams), "")
        message = _why_not(pipeline, sink) if of else ""
        if message:
            place, path = place_in(tree, "sinks", sink.name, "inputs")
            yield Problem(place=place, path=path, message=f"`{of}` is a table's stream: {message}")
    for check in pipeline.checks.values():
        of = next((name for name in lineage(pipeline, check.on)[0] if name in streams), "")
        if of and check.action is Action.DEAD_LETTER:
            place, path = place_in(tree, "checks", check.name, "action")
            message = f"`{of}` is a table's stream: {_NO_LETTERS}; expected warn, drop or fail"
            yield Problem(place=place, path=path, message=message)
    for sink_name in pipeline.sinks:
        circle = upstream_of(pipeline, sink_name)
        if sink_name in circle:
            place, path = place_in(tree, "sinks", sink_name, "inputs")
            message = "its table is read, over other tables, by its own rows: a circle never ends"
            yield Problem(place=place, path=path, message=message)


def _why_not(pipeline: Pipeline, sink: Sink) -> str:
    """Why a sink cannot take a table's rows; "" if it can."""
    transforms = [pipeline.transforms[name] for name in lineage(pipeline, sink.input)[1]]
    # Each of the three finds its rows again by the offset of their records, or reads them again.
    if any(each.watermarks or each.state for each in transforms):
        return "a state reads records again: expected transforms without `watermark` and `state`"
    if sink.on_error is OnError.DEAD_LETTER:
        return f"{_NO_LETTERS}; expected `on_error: fail`"
    if sink.family is not None:
        return "a table for each value needs the offsets of records: expected one `path`"
    return ""
