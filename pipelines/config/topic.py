"""Reader of the keywords of a topic sink, and the rules for its topic.

Like every reader, it records problems and continues with harmless values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from pipelines.base.errors import Place, Problem
from pipelines.config.gaps import Gaps
from pipelines.config.keywords import WORDS
from pipelines.config.loader import Table
from pipelines.config.output_paths import place_in
from pipelines.config.section import Reader, shown
from pipelines.config.security import settings_of
from pipelines.model.lineage import lineage, stateful_of
from pipelines.model.pipeline import Mode, Pipeline, Placed, Sink, Source
from pipelines.model.topic import SINK_ID_MAX, SinkTopic, sink_id

_PORT = r"0*([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])"
_ONE = rf"([^\s:,\[\]]+|\[[^\s,\[\]]+\]):{_PORT}"
ADDRESS = re.compile(rf"{_ONE}(,{_ONE})*")
TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
TOPIC_MODES = ("append", "update")
NO_TOPIC = "is not a valid topic name: expected 1 to 249 of a-z A-Z 0-9 . _ -"


def target_of(reader: Reader, mode: str | None) -> SinkTopic:
    """The topic of a sink section; without `bootstrap`, the source's brokers are used."""
    if mode not in (None, *TOPIC_MODES):
        message = f"a topic only grows: expected append or update; found `{mode}`"
        reader.wrong_at("mode", message)
    topic = reader.text("topic", required=True)
    if topic and not TOPIC.fullmatch(topic):
        reader.wrong_at("topic", f"`{topic}` {NO_TOPIC}")
    elif topic and topic.startswith("__"):
        reader.wrong_at("topic", f"`{topic}` is the brokers' own: expected another topic")
    # A list of one column is that column: a JSON object would make the same records another key.
    keys = reader.columns("key")
    several = tuple(zip(keys, reader.item_places("key"), strict=False)) if len(keys) > 1 else ()
    return SinkTopic(
        bootstrap=address_of(reader) or "",
        topic=topic or "",
        key=keys[0] if len(keys) == 1 else None,
        key_place=reader.place_of("key"),
        key_columns=several,
        exactly_once=reader.choice("delivery") != "at_least_once",
        security=settings_of(reader),
    )


def tombstone_of(reader: Reader, mode: str | None) -> Placed | None:
    """The condition of a topic sink's tombstones."""
    if not reader.has("tombstone_when"):
        return None
    if mode != "update":
        message = "`tombstone_when` is for mode update: a record of mode append replaces none"
        reader.wrong_at("tombstone_when", message)
    return reader.placed("tombstone_when")


def address_of(reader: Reader, *, required: bool = False) -> str | None:
    """The broker addresses below `bootstrap`."""
    bootstrap = reader.text("bootstrap", required=required)
    if bootstrap and not ADDRESS.fullmatch(bootstrap):
        expected = WORDS[reader.section]["bootstrap"].expected
        found = shown(reader.table.nodes["bootstrap"])
        reader.wrong_at("bootstrap", f"expected {expected}; found {found}")
    return bootstrap


def with_brokers(pipeline: Pipeline) -> Pipeline:
    """Each topic sink with brokers: by default those of its source, with the source's security
    settings unless the sink has its own."""
    sinks = {name: _with_brokers(pipeline, sink) for name, sink in pipeline.sinks.items()}
    return replace(pipeline, sinks=sinks)


def _with_brokers(pipeline: Pipeline, sink: Sink) -> Sink:
    if sink.topic is None or sink.topic.bootstrap:
        return sink
    source = next(iter(_sources_of(pipeline, sink)), None)
    if source is None:
        return sink
    security = sink.topic.security or source.security
    return replace(sink, topic=replace(sink.topic, bootstrap=source.bootstrap, security=security))


def topic_problems(pipeline: Pipeline, tree: Table, gaps: Gaps) -> Iterator[Problem]:
    """Record the problems of the topics that a pipeline writes. `gaps`: those of its sources."""
    for sink in pipeline.sinks.values():
        target = sink.topic
        if target is None:
            continue
        place, path = place_in(tree, "sinks", sink.name, "bootstrap")
        sources = _sources_of(pipeline, sink)
        is_known = not (sources and gaps.covers(f"sources.{sources[0].name}.bootstrap"))
        if not target.bootstrap and sources and is_known and not path.endswith(".bootstrap"):
            message = f"`bootstrap` is missing: source `{sources[0].name}` has no brokers"
            yield Problem(place=place, path=path, message=message)
        if sink.mode is Mode.UPDATE:
            for word, message in _update_problems(pipeline, sink, target, gaps):
                place, path = place_in(tree, "sinks", sink.name, word)
                yield Problem(place=place, path=path, message=message)
        place, path = place_in(tree, "sinks", sink.name, "topic")
        for source in pipeline.sources.values():
            if reads(source, target):
                message = f"source `{source.name}` reads it: its rows would be read again forever"
                yield Problem(place=place, path=path, message=message)
        name = sink_id(pipeline.name, sink.name, target.topic)
        if len(name) > SINK_ID_MAX:
            message = f"pipeline, sink and topic have {len(name)} characters together in {name}"
            message = f"{message}: expected {SINK_ID_MAX} at most"
            yield Problem(place=place, path=path, message=message)


def _update_problems(
    pipeline: Pipeline, sink: Sink, target: SinkTopic, gaps: Gaps
) -> Iterator[tuple[str, str]]:
    """(keyword, problem) of a sink whose records are changes."""
    if not target.keys and not gaps.touches(f"sinks.{sink.name}.key"):
        message = "`key` is missing: a change replaces the last record of its key"
        yield "mode", f"{message}; expected the columns that the transform groups by"
    stateful = stateful_of(pipeline, sink)
    if stateful is not None and stateful.state is not None:
        yield (
            "mode",
            f"the rows that the class of `{stateful.name}` gives are final: expected append",
        )
    if not gaps.of_graph and sink.input and stateful is None:
        message = "no transform of its rows has a state (`watermark`), so no row changes"
        yield "mode", f"{message}: expected append"


def columns_named(sink: Sink) -> Iterator[tuple[str, Place]]:
    """(column, place) of each input column that a topic sink names."""
    if sink.topic is not None:
        yield from sink.topic.keys


def record_columns(sink: Sink) -> tuple[str, ...]:
    """The columns of the records that a topic sink writes; none for a table."""
    if sink.topic is None:
        return ()
    return ("key", "value") if sink.topic.keys else ("value",)


def reads(source: Source, target: SinkTopic) -> bool:
    """Whether a source reads the topic that a sink writes, as far as the file shows."""
    if source.local is not None or not target.topic or not target.bootstrap:
        return False
    if {*source.bootstrap.split(",")}.isdisjoint(target.bootstrap.split(",")):
        return False
    if source.pattern is None:
        return target.topic in source.topics
    try:
        return re.fullmatch(source.pattern, target.topic) is not None
    except re.error:
        return False


def _sources_of(pipeline: Pipeline, sink: Sink) -> list[Source]:
    names = lineage(pipeline, sink.input)[0] if sink.input else ()
    return [pipeline.sources[name] for name in names]
