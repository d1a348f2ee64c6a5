"""The compiled plan of a pipeline: the graph's facts about each sink and source. Pure.

A run compiles it once from a validated pipeline. What a micro-batch needs of the graph is then an
attribute, and no micro-batch derives it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipelines.model.lineage import lineage
from pipelines.model.pipeline import Action, Check, OnError, Pipeline, Sink, Source, Transform


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The sources and the transforms of a node, the transforms in the order to build them."""

    sources: tuple[str, ...]
    transforms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlan:
    """One source. `sinks`: the sinks with rows of it, in the file's order; the first one settles
    the chain of its dead letters. `sending`: the checks that make its records dead letters.
    `judged_in`: the transforms that those checks depend on."""

    source: Source
    sinks: tuple[str, ...]
    sending: tuple[Check, ...]
    judged_in: tuple[Transform, ...]
    decodes_letters: bool
    """Whether `decode` makes records dead letters."""
    has_dead_letters: bool
    """By `decode` or by a check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlan:
    """One sink. `transforms`: those of its rows. `checks`: those on its sources and transforms; if
    it leads a source, also the checks that send that source's dead letters. `lettered`: its sources
    with dead letters. `leads`: the sources whose chain of dead letters is settled with this sink.
    `failing`: the sources with `on_error: fail`. `groups`: source → the consumer group that gets
    the sink's offsets.
    """

    name: str
    sink: Sink
    source: Source
    """The source of its rows; the first one if streams are joined."""
    sources: tuple[Source, ...]
    transforms: tuple[Transform, ...]
    checks: tuple[Check, ...]
    lettered: tuple[SourcePlan, ...]
    leads: tuple[Source, ...]
    failing: tuple[Source, ...]
    stateful: Transform | None
    groups: Mapping[str, str]
    nodes: tuple[str, ...]
    """The nodes of its rows and its checks."""
    letter_nodes: tuple[str, ...]
    """The nodes of the checks that send its sources' dead letters."""
    build: Lineage
    """The lineage of all these nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePlan:
    """A whole file. `nodes`: the lineage of each source and transform. `checks_on`: node → its
    checks, for nodes that have some."""

    pipeline: Pipeline
    sources: Mapping[str, SourcePlan]
    sinks: Mapping[str, SinkPlan]
    nodes: Mapping[str, Lineage]
    checks_on: Mapping[str, tuple[Check, ...]]

    def with_rows(self, of: Mapping[str, tuple[Mapping[str, Any], ...]]) -> PipelinePlan:
        """See `Pipeline.with_rows`; the graph is the same."""
        return replace(self, pipeline=self.pipeline.with_rows(of))

    def inputs_of(self, node: str) -> set[str]:
        """The direct and indirect inputs of a node."""
        transforms = self.pipeline.transforms
        return {one for each in self.nodes[node].transforms for one in transforms[each].inputs}

    def together(self, wanted: Iterable[str]) -> Lineage:
        """The lineage of several nodes."""
        return _together(self.nodes, wanted)


def compile_plan(pipeline: Pipeline) -> PipelinePlan:
    """Compile a valid pipeline."""
    nodes = {node: _lineage(pipeline, node) for node in (*pipeline.sources, *pipeline.transforms)}
    used = {
        node
        for sink in pipeline.sinks.values()
        for part in (nodes[sink.input].sources, nodes[sink.input].transforms)
        for node in part
    }
    sources = {
        name: _source_plan(pipeline, nodes, source, used)
        for name, source in pipeline.sources.items()
    }
    return PipelinePlan(
        pipeline=pipeline,
        sources=sources,
        sinks={
            name: _sink_plan(pipeline, nodes, sources, sink)
            for name, sink in pipeline.sinks.items()
        },
        nodes=nodes,
        checks_on={
            node: found
            for node in nodes
            if (found := tuple(check for check in pipeline.checks.values() if check.on == node))
        },
    )


def _lineage(pipeline: Pipeline, node: str) -> Lineage:
    sources, transforms = lineage(pipeline, node)
    return Lineage(sources=sources, transforms=transforms)


def _together(nodes: Mapping[str, Lineage], wanted: Iterable[str]) -> Lineage:
    found = [nodes[node] for node in wanted]
    return Lineage(
        sources=tuple(dict.fromkeys(name for each in found for name in each.sources)),
        transforms=tuple(dict.fromkeys(name for each in found for name in each.transforms)),
    )


def _source_plan(
    pipeline: Pipeline, nodes: Mapping[str, Lineage], source: Source, used: set[str]
) -> SourcePlan:
    """`used`: the nodes that sinks use; a check on any other node has no effect."""
    sending = tuple(
        check
        for check in pipeline.checks.values()
        if check.on in used
        and check.action is Action.DEAD_LETTER
        and source.name in nodes[check.on].sources
    )
    sinks = pipeline.sinks.values()
    judged_in = _together(nodes, [check.on for check in sending]).transforms
    decodes_letters = source.has_on_error(OnError.DEAD_LETTER)
    return SourcePlan(
        source=source,
        sinks=tuple(sink.name for sink in sinks if source.name in nodes[sink.input].sources),
        sending=sending,
        judged_in=tuple(pipeline.transforms[name] for name in judged_in),
        decodes_letters=decodes_letters,
        has_dead_letters=decodes_letters or bool(sending),
    )


def _sink_plan(
    pipeline: Pipeline,
    nodes: Mapping[str, Lineage],
    sources: Mapping[str, SourcePlan],
    sink: Sink,
) -> SinkPlan:
    own = nodes[sink.input]
    plans = [sources[name] for name in own.sources]
    lettered = tuple(each for each in plans if each.has_dead_letters)
    # A source has one dead-letter chain but many sinks; exactly one of them may settle it.
    leading = [each for each in lettered if each.sinks[0] == sink.name]
    below = {*own.sources, *own.transforms}
    checks = [check for check in pipeline.checks.values() if check.on in below]
    checks += [check for each in leading for check in each.sending]
    wanted = tuple(dict.fromkeys([sink.input, *(check.on for check in checks)]))
    letter_nodes = tuple(dict.fromkeys(check.on for each in plans for check in each.sending))
    transforms = tuple(pipeline.transforms[name] for name in own.transforms)
    return SinkPlan(
        name=sink.name,
        sink=sink,
        source=plans[0].source,
        sources=tuple(each.source for each in plans),
        transforms=transforms,
        checks=tuple(dict.fromkeys(checks)),
        lettered=lettered,
        leads=tuple(each.source for each in leading),
        failing=tuple(e.source for e in plans if e.source.has_on_error(OnError.FAIL)),
        stateful=next((each for each in transforms if each.watermarks), None),
        groups={
            each.source.name: each.source.commit_group or f"{pipeline.name}.{sink.name}"
            for each in plans
        },
        nodes=wanted,
        letter_nodes=letter_nodes,
        build=_together(nodes, (*wanted, *letter_nodes)),
    )
