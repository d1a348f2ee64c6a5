"""The lineage of a node: the sources and transforms that its rows come from. Pure.

For code that validates, draws or exports a file, which may still be wrong. A run uses it once, to
compile its plan (`plan.py`).
"""

from __future__ import annotations

from collections.abc import Collection

from pipelines.model.pipeline import Check, Pipeline, Sink, Transform


def lineage(pipeline: Pipeline, node: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(sources, transforms) of `node`; the transforms in the order to build them, without lookups.

    Terminates also for a wrong file whose transforms are in a circle.
    """
    sources: dict[str, None] = {}
    transforms: dict[str, None] = {}
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name in pipeline.sources:
            sources[name] = None
        elif name in pipeline.transforms and name not in seen:
            seen.add(name)
            for below in pipeline.transforms[name].inputs:
                visit(below)
            transforms[name] = None

    visit(node)
    return tuple(sources), tuple(transforms)


def inputs_of(pipeline: Pipeline, node: str) -> set[str]:
    """The direct and indirect inputs of a node."""
    _, transforms = lineage(pipeline, node)
    return {one for each in transforms for one in pipeline.transforms[each].inputs}


def stateful_of(pipeline: Pipeline, sink: Sink) -> Transform | None:
    """The stateful transform of a sink's rows; validation allows one."""
    names = lineage(pipeline, sink.input)[1]
    found = (pipeline.transforms[name] for name in names)
    return next((each for each in found if each.watermarks), None)


def checks_on(pipeline: Pipeline, nodes: Collection[str]) -> tuple[Check, ...]:
    """The checks on these sources and transforms, in the file's order."""
    return tuple(check for check in pipeline.checks.values() if check.on in nodes)
