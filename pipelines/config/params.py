"""Reader of a pipeline file's `params`: the values of `:name` in its SQL.

Like every reader, it records problems and continues with harmless values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from pipelines.config.loader import Scalar
from pipelines.config.section import LONG_MAX, NAME, Reader, shown
from pipelines.model.parameters import Value, names_in
from pipelines.model.pipeline import Parameter, Pipeline, Placed


def params_of(top: Reader) -> dict[str, Parameter]:
    """The parameters in file order."""
    table = top.table_of("params")
    found: dict[str, Parameter] = {}
    for name, node in (table.nodes if table else {}).items():
        assert table is not None
        place = table.key_places[name]
        if not NAME.fullmatch(name):
            top.problem(place, node.path, f"`{name}` is not a name: expected a-z, 0-9 and _")
        value = node.value if isinstance(node, Scalar) else None
        wrong = ""
        if isinstance(node, Scalar) and node.is_secret:
            wrong = "a secret must not be a parameter: commits and plans name its value"
        elif isinstance(node, Scalar) and node.is_unknown:
            value = ""
        elif value is None:
            wrong = f"expected a text, a number or a flag; found {shown(node)}"
        elif isinstance(value, float) and not math.isfinite(value):
            wrong = f"expected a finite number; found {shown(node)}"
        elif isinstance(value, int) and not -LONG_MAX - 1 <= value <= LONG_MAX:
            wrong = f"expected a whole number of 64 bits; found {shown(node)}"
        if wrong:
            top.problem(node.place, node.path, wrong)
        found[name] = Parameter(
            value="" if value is None or wrong else value, place=place, path=node.path
        )
    return found


def with_params(pipeline: Pipeline, params: Mapping[str, Parameter]) -> Pipeline:
    """The pipeline with the values of the parameters that each SQL text names."""
    values = {name: each.value for name, each in params.items()}
    transforms = {
        name: replace(each, said=_bound(each.said, values))
        for name, each in pipeline.transforms.items()
    }
    checks = {
        name: replace(each, expr=_bound(each.expr, values))
        for name, each in pipeline.checks.items()
    }
    sinks = {}
    for name, sink in pipeline.sinks.items():
        latest = sink.latest
        if latest is not None and latest.delete_when is not None:
            latest = replace(latest, delete_when=_bound(latest.delete_when, values))
        conditions = {key: _bound(each, values) for key, each in sink.constraints.items()}
        tombstone = sink.tombstone_when and _bound(sink.tombstone_when, values)
        sinks[name] = replace(sink, latest=latest, constraints=conditions, tombstone_when=tombstone)
    return replace(pipeline, transforms=transforms, checks=checks, sinks=sinks, params=dict(params))


def _bound(said: Placed, values: Mapping[str, Value]) -> Placed:
    used = {name: values[name] for _, name in names_in(said.text) if name in values}
    return replace(said, params=tuple(used.items())) if used else said
