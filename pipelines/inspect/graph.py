"""The graph of a pipeline: sources, transforms, sinks, dead letters; as Mermaid, DOT or SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from html import escape

from pipelines.model.lineage import checks_on, lineage
from pipelines.model.pipeline import Action, OnError, Pipeline, Sink

NOTHING_LIVE: Mapping[str, str] = {}


class Shape(Enum):
    """The kind of a node."""

    SOURCE = "source"
    TRANSFORM = "transform"
    SINK = "sink"
    DEAD_LETTERS = "dead letters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One box. `column`: the number of pipeline steps before it."""

    id: str
    lines: tuple[str, ...]
    """At most three."""
    shape: Shape
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Boxes and the arrows between them, both in the order of the file."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[str, str], ...]


def graph_of(pipeline: Pipeline, live: Mapping[str, str] = NOTHING_LIVE) -> Graph:
    """Every node of the file, used or not; `?` for a path that contains a secret. `live`: sink → an
    additional line.

    A source and a sink may have one name.
    """
    nodes = [
        Node(
            id=f"source_{source.name}",
            lines=(
                source.name,
                source.told,
                *_checks(pipeline, source.name),
            ),
            shape=Shape.SOURCE,
            column=0,
        )
        for source in pipeline.sources.values()
    ]
    nodes += [
        Node(id=f"source_{each.name}", lines=(each.name, each.told), shape=Shape.SOURCE, column=0)
        for each in pipeline.lookups.values()
    ]
    columns = _columns(pipeline)
    for name in pipeline.transforms:
        column = columns[name]
        nodes.append(
            Node(
                id=f"transform_{name}",
                lines=(name, *_checks(pipeline, name)),
                shape=Shape.TRANSFORM,
                column=column,
            )
        )
    # All sinks are in one last column, however deep their transforms: one sees at a glance where
    # the pipeline ends.
    last = max(columns.values(), default=0) + 1
    for sink in pipeline.sinks.values():
        told = f"{_mode(sink)} {sink.told or '?'}"
        lines = (sink.name, told, *filter(None, [live.get(sink.name)]))
        nodes.append(Node(id=f"sink_{sink.name}", lines=lines, shape=Shape.SINK, column=last))
    if pipeline.dead_letters:
        lines = ("dead letters", pipeline.dead_letters)
        nodes.append(Node(id="dead_letter", lines=lines, shape=Shape.DEAD_LETTERS, column=last))
    return Graph(nodes=tuple(nodes), edges=tuple(dict.fromkeys(_edges(pipeline))))


def _checks(pipeline: Pipeline, node: str) -> tuple[str, ...]:
    names = [check.name for check in checks_on(pipeline, [node])]
    return (f"checks: {', '.join(names)}",) if names else ()


def _mode(sink: Sink) -> str:
    by = f" by {', '.join(sink.keys)}" if sink.keys else ""
    return f"{sink.mode.value}{by}:"


def _columns(pipeline: Pipeline) -> Mapping[str, int]:
    columns = dict.fromkeys((*pipeline.sources, *pipeline.lookups), 0)
    for name in pipeline.transforms:
        for each in lineage(pipeline, name)[1]:
            inputs = pipeline.transforms[each].inputs
            columns[each] = 1 + max((columns[one] for one in inputs), default=0)
    return columns


def _edges(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    def made(name: str) -> str:
        return f"{'transform' if name in pipeline.transforms else 'source'}_{name}"

    for transform in pipeline.transforms.values():
        for one in transform.inputs:
            yield made(one), f"transform_{transform.name}"
    for sink in pipeline.sinks.values():
        yield made(sink.input), f"sink_{sink.name}"
    for source in pipeline.sources.values():
        if pipeline.dead_letters and source.has_on_error(OnError.DEAD_LETTER):
            yield f"source_{source.name}", "dead_letter"
    for sink in pipeline.sinks.values():
        if pipeline.dead_letters and sink.on_error is OnError.DEAD_LETTER:
            yield made(sink.input), "dead_letter"
    for check in pipeline.checks.values():
        if pipeline.dead_letters and check.action is Action.DEAD_LETTER:
            yield made(check.on), "dead_letter"


_MERMAID = {
    Shape.SOURCE: ("([", "])"),
    Shape.TRANSFORM: ("[", "]"),
    Shape.SINK: ("[(", ")]"),
    Shape.DEAD_LETTERS: ("[(", ")]"),
}


def as_mermaid(graph: Graph) -> str:
    """For Markdown pages."""
    lines = ["flowchart LR"]
    for node in graph.nodes:
        begin, end = _MERMAID[node.shape]
        text = "<br>".join(escape(line, quote=True) for line in node.lines)
        lines.append(f'    {node.id}{begin}"{text}"{end}')
    lines += [
        f"    {one} {'-.->' if other == 'dead_letter' else '-->'} {other}"
        for one, other in graph.edges
    ]
    return "\n".join(lines) + "\n"


_DOT = {
    Shape.SOURCE: "cds",
    Shape.TRANSFORM: "box",
    Shape.SINK: "cylinder",
    Shape.DEAD_LETTERS: "cylinder",
}


def as_dot(graph: Graph) -> str:
    """For Graphviz."""
    lines = ["digraph pipeline {", "    rankdir=LR;"]
    for node in graph.nodes:
        text = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in node.lines)
        lines.append(f'    {node.id} [shape={_DOT[node.shape]}, label="{text}"];')
    for one, other in graph.edges:
        style = " [style=dashed]" if other == "dead_letter" else ""
        lines.append(f"    {one} -> {other}{style};")
    return "\n".join([*lines, "}"]) + "\n"


_WIDTH, _GAP_X, _GAP_Y, _MARGIN = 240, 60, 20, 20
_HEIGHTS = {1: 48, 2: 48, 3: 65}
"""The height of every box: that of the box with the most lines."""
_CHARACTERS_MAX = 34
_COLOUR = {
    Shape.SOURCE: "#dbeafe",
    Shape.TRANSFORM: "#f3f4f6",
    Shape.SINK: "#dcfce7",
    Shape.DEAD_LETTERS: "#fee2e2",
}


def as_svg(graph: Graph) -> str:
    """An SVG image, made without an external program: one column per step."""
    places: dict[str, tuple[int, int]] = {}
    rows: dict[int, int] = {}
    tall = _HEIGHTS[max((len(node.lines) for node in graph.nodes), default=1)]
    for node in graph.nodes:
        row = rows.get(node.column, 0)
        rows[node.column] = row + 1
        x = _MARGIN + node.column * (_WIDTH + _GAP_X)
        places[node.id] = x, _MARGIN + row * (tall + _GAP_Y)
    width = max((x for x, _ in places.values()), default=0) + _WIDTH + _MARGIN
    height = max((y for _, y in places.values()), default=0) + tall + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
    ]
    # Edges first: SVG paints in document order, so the boxes in between cover a line that skips
    # their column.
    for one, other in graph.edges:
        (x1, y1), (x2, y2) = places[one], places[other]
        x1, y1, y2 = x1 + _WIDTH, y1 + tall // 2, y2 + tall // 2
        middle = (x1 + x2) // 2
        dashes = ' stroke-dasharray="4"' if other == "dead_letter" else ""
        lines.append(
            f'  <path d="M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}" fill="none" '
            f'stroke="#6b7280"{dashes}/>'
        )
    for node in graph.nodes:
        x, y = places[node.id]
        lines.append(
            f'  <rect x="{x}" y="{y}" width="{_WIDTH}" height="{tall}" rx="6" '
            f'fill="{_COLOUR[node.shape]}" stroke="#6b7280"/>'
        )
        for number, line in enumerate(node.lines):
            text = line if len(line) <= _CHARACTERS_MAX else "…" + line[1 - _CHARACTERS_MAX :]
            top = y + (tall // 2 + 4 if len(node.lines) == 1 else 20 + 17 * number)
            weight = ' font-weight="bold"' if number == 0 else ""
            lines.append(f'  <text x="{x + 10}" y="{top}"{weight}>{escape(text)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"
