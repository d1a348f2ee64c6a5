"""What the rows of a node depend on, in a comparable form without places in the file. Pure.

Two versions of a file give a node the same rows from the same records if these forms are equal, so
a round of `josefine pipeline dev` need not compute it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from pipelines.base.errors import Place
from pipelines.config.checks import DEAD_LETTER
from pipelines.model.plan import PipelinePlan

Form = Any
"""Nested tuples of plain values, equal or not."""


def form_of(value: Any) -> Form:
    """A value with its parts, without any Place: a line that moves changes nothing."""
    if isinstance(value, Place):
        return None
    if is_dataclass(value) and not isinstance(value, type):
        parts = ((each.name, form_of(getattr(value, each.name))) for each in fields(value))
        return (type(value).__name__, *parts)
    if isinstance(value, Mapping):
        return tuple((form_of(name), form_of(each)) for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(form_of(each) for each in value)
    if isinstance(value, (set, frozenset)):
        return frozenset(form_of(each) for each in value)
    # 1, 1.0 and True are equal in Python, and other rows in SQL.
    return (type(value).__name__, value)


def dependencies_of(plan: PipelinePlan, node: str) -> Form:
    """Of what a test expects: rows of a sink or transform, rows that fail a check, dead ones."""
    pipeline = plan.pipeline
    if node == DEAD_LETTER:
        return form_of(replace(pipeline, cases=(), conf_places={}))
    sink = pipeline.sinks.get(node)
    check = pipeline.checks.get(node)
    name = sink.input if sink else check.on if check else node
    return form_of((sink, check)), dependencies_of_rows(plan, name)


def dependencies_of_rows(plan: PipelinePlan, name: str) -> Form:
    """Of a source's or a transform's rows."""
    pipeline, below, inputs = plan.pipeline, plan.nodes[name], plan.inputs_of(name)
    nodes = {name, *below.sources, *below.transforms}
    parts = (
        name,
        [pipeline.sources[each] for each in below.sources],
        [pipeline.transforms[each] for each in below.transforms],
        [each for each in pipeline.checks.values() if each.on in nodes],
        [each for each in pipeline.lookups.values() if each.name in inputs],
    )
    return form_of(parts)
