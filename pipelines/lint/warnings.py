"""Warnings about a pipeline: unused nodes and unknown settings, which harm no row.

`lint` refuses them. A run logs them and continues, because a setting may belong to a newer Spark.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.base.errors import Problem
from pipelines.config.gaps import Gaps
from pipelines.model.lineage import inputs_of, lineage
from pipelines.model.pipeline import Pipeline
from pipelines.spark.settings import why_unknown


def notices(pipeline: Pipeline, gaps: Gaps = Gaps()) -> Iterator[Problem]:
    """Settings that neither Spark nor Delta has, and nodes outside of every sink's lineage."""
    for key, place in pipeline.conf_places.items():
        why = why_unknown(key)
        if why:
            yield Problem(place=place, path=f"spark.conf.{key}", message=why, stops_run=False)
    if gaps.of_graph:
        return  # a node may have its use in what could not be read
    used: set[str] = set()
    for sink in pipeline.sinks.values():
        sources, transforms = lineage(pipeline, sink.input)
        used.update(sources, transforms, inputs_of(pipeline, sink.input))
    for check in pipeline.checks.values():
        if (
            check.on in pipeline.sources or check.on in pipeline.transforms
        ) and check.on not in used:
            message = f"no sink uses `{check.on}`, so nothing is looked at"
            path = f"checks.{check.name}.on"
            yield Problem(place=check.on_place, path=path, message=message, stops_run=False)
    for section, nodes in (
        ("sources", pipeline.sources),
        ("sources", pipeline.lookups),
        ("transforms", pipeline.transforms),
    ):
        for name, node in nodes.items():
            if name not in used:
                yield Problem(
                    place=node.place,
                    path=f"{section}.{name}",
                    message="no sink uses it, directly or through a transform",
                    stops_run=False,
                )
