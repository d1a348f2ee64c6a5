"""The shadow of a pipeline: the new file over tables of its own, between given offsets. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition, TopicIds, flat, nested
from josefine_spark.read.offsets import Bounds
from pipelines.config.output_paths import local_folder
from pipelines.exactly_once.other_chains import ChainName
from pipelines.model.meaning import digest, fingerprint
from pipelines.model.pipeline import End, Pipeline, Sink, Start
from pipelines.model.plan import compile_plan
from pipelines.sinks.delta_log import LogEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A table of the new file and its shadow. `sources`: those of its rows. `sink` None: the
    dead-letter table."""

    what: str
    name: ChainName
    live: str
    shadow: str
    sources: tuple[str, ...]
    sink: Sink | None = None


def deploy_id(old: Pipeline, new: Pipeline) -> str:
    """The id of a deploy: the same two files give the same one, so that a repetition of the
    command finds the shadow tables that a died one has left."""
    plans = compile_plan(old), compile_plan(new)
    prints = [{name: fingerprint(plan, name) for name in plan.sinks} for plan in plans]
    return digest([new.name, *prints])[:8]


def pairs_of(new: Pipeline, ident: str) -> list[Pair]:
    """The tables of the new file: dead letters first, as in each of its commits."""
    plan = compile_plan(new)
    found = []
    # One table for the dead letters of all sources: `refusals` lets only one source have some.
    lettered = [name for name, each in plan.sources.items() if each.has_dead_letters]
    if lettered and new.dead_letter_path:
        name = ChainName(pipeline=new.name, sink=f"dead_letter.{lettered[0]}")
        live = _local(new.dead_letter_path)
        found.append(
            Pair(
                what="dead letters",
                name=name,
                live=live,
                shadow=shadow_path(live, ident),
                sources=(lettered[0],),
            )
        )
    for of in plan.sinks.values():
        live = _local(str(of.sink.path))
        found.append(
            Pair(
                what=f"sink `{of.name}`",
                name=ChainName(pipeline=new.name, sink=of.name),
                live=live,
                shadow=shadow_path(live, ident),
                sources=tuple(each.name for each in of.sources),
                sink=of.sink,
            )
        )
    return found


def _local(path: str) -> str:
    return str(local_folder(path)).rstrip("/")


def shadow_path(path: str, ident: str) -> str:
    """The folder of a table's shadow, next to it."""
    return f"{path.rstrip('/')}__shadow_{ident}"


def checkpoint_path(new: Pipeline, ident: str) -> str:
    """The folder of the shadow's checkpoints."""
    return f"{new.checkpoint.rstrip('/')}/deploy_{ident}"


def refusals(old: Pipeline, new: Pipeline) -> Iterator[str]:
    """Why these two files cannot be deployed by rows, a sentence each. Known without a look."""
    if old.name != new.name:
        yield (
            f"the pipeline's name was `{old.name}`, is `{new.name}`: the name is part of the "
            "offset chain; rename it with `josefine pipeline run --rename` in a deploy of its own"
        )
    plan = compile_plan(new)
    for of in plan.sinks.values():
        sink, where = of.sink, f"sink `{of.name}`"
        if sink.type != "delta" or sink.path is None:
            yield f"{where}: expected `type: delta` with a `path`; it is {sink.type} {sink.told}"
        elif local_folder(sink.path) is None:
            yield f"{where}: {sink.path} is not a folder of this machine: not supported yet"
        # Another table would be filled from nothing: there is nothing to swap.
        before = old.sinks.get(of.name)
        if before is not None and before.told != sink.told:
            yield f"{where}: its table was {before.told}, is {sink.told}: run the new file alone"
        if of.stateful is not None:
            yield f"{where}: `{of.stateful.name}` has a state, which is in the checkpoint"
        for source in of.sources:
            if source.local is not None:
                yield f"{where}: source `{source.name}` is no topic, so its records may be gone"
        if any(each.path == sink.path for each in plan.pipeline.sinks.values() if each is not sink):
            yield f"{where}: another sink writes the same table"
    lettered = [name for name, each in plan.sources.items() if each.has_dead_letters]
    if len(lettered) > 1:
        names = ", ".join(f"`{name}`" for name in lettered)
        yield f"the sources {names} share one dead-letter table, which is swapped as a whole"
    if lettered and (not new.dead_letter_path or local_folder(new.dead_letter_path) is None):
        yield "`dead_letter`: expected a `path` of this machine"
    if lettered and any(s.on_error.value == "dead_letter" for s in new.sinks.values()):
        yield "`on_error: dead_letter` of a sink and of a source share one dead-letter table"


def begun_of(entries: Iterable[LogEntry]) -> ByPartition:
    """Where a chain began, by its commits, newest first: each names the offsets it continues."""
    found: ByPartition = {}
    for entry in entries:
        said = entry.metadata or {}
        if isinstance(said.get("start"), dict):
            found = {**found, **flat(said["start"])}
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The offsets of one source that the shadow reads."""

    begins: ByPartition
    ends: ByPartition


def span_of(begun: ByPartition, ends: ByPartition, bounds: Mapping[TopicPartition, Bounds]) -> Span:
    """The span of a source's partitions. A partition that the live table does not know is left to
    the run after the swap; of a topic that the old file did not read all records are read."""
    known = {partition.topic for partition in ends}
    first, last = {}, {}
    for partition, bound in bounds.items():
        if partition in ends:
            first[partition] = begun.get(partition, bound.earliest)
            last[partition] = ends[partition]
        else:
            first[partition] = bound.earliest
            is_new_topic = partition.topic not in known
            last[partition] = bound.latest if is_new_topic else bound.earliest
    return Span(begins=first, ends=last)


def missing_rows(span: Span, bounds: Mapping[TopicPartition, Bounds]) -> list[str]:
    """The offsets that the span needs and the topics do not have any more, a line per partition."""
    lines = []
    for partition, begin in sorted(span.begins.items()):
        earliest, end = bounds[partition].earliest, span.ends[partition]
        lost = min(earliest, end) - begin
        if lost > 0:
            until = begin + lost
            lines.append(f"{partition.topic}-{partition.partition} [{begin}, {until}): {lost:,}")
    return lines


def clamped(span: Span, bounds: Mapping[TopicPartition, Bounds]) -> Span:
    """The span from what the topics still have on."""
    first = {p: max(begin, bounds[p].earliest) for p, begin in span.begins.items()}
    last = {p: max(end, first[p]) for p, end in span.ends.items()}
    return Span(begins=first, ends=last)


def recreated(known: TopicIds, now: TopicIds) -> list[str]:
    """The topics that were deleted and created again since the table read them."""
    return sorted(t for t, one in known.items() if one and now.get(t) and now[t] != one)


def shadow_of(new: Pipeline, ident: str, spans: Mapping[str, Span]) -> Pipeline:
    """The pipeline that fills the shadow tables: what the new file does, and nothing that others
    see of it (consumer groups, metrics, listeners)."""
    # Explicit offsets: `earliest` may be later than where the live table began.
    sources = dict(new.sources)
    for name, span in spans.items():
        text = json.dumps(nested(span.begins))
        start = Start(option="startingOffsets", text=text, offsets=span.begins)
        sources[name] = replace(
            sources[name],
            start=start,
            stop=End(offsets=span.ends),
            skips_losses=False,
        )
    sinks = {
        name: replace(
            sink, path=shadow_path(_local(str(sink.path)), ident), upkeep=(), fresh_ms=None
        )
        for name, sink in new.sinks.items()
    }
    dead = new.dead_letter_path
    return replace(
        new,
        sources=sources,
        sinks=sinks,
        checkpoint=checkpoint_path(new, ident),
        dead_letter_path=shadow_path(_local(dead), ident) if dead else None,
        every_ms=None,
        once=False,
        metrics=None,
        metrics_table=None,
        json_log=False,
    )
