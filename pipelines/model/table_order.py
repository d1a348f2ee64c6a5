"""The order of a file's sinks by the tables that they read from each other. Pure.

A run asks once for it, before its queries start.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.model.lineage import lineage
from pipelines.model.pipeline import Pipeline


def upstream_of(pipeline: Pipeline, sink: str) -> tuple[str, ...]:
    """The sinks of the file whose tables a sink's streams read, directly and over other tables."""
    found: dict[str, None] = {}
    left = [sink]
    while left:
        sources = lineage(pipeline, pipeline.sinks[left.pop()].input)[0]
        streams = (pipeline.sources[name] for name in sources)
        read = {one.local.path for one in streams if one.table_stream and one.local}
        for other in pipeline.sinks.values():
            if other.path in read and other.name not in found:
                found[other.name] = None
                left.append(other.name)
    return tuple(found)


def upstream_first(pipeline: Pipeline, sinks: Iterable[str]) -> list[str]:
    """These sinks, each after those whose tables it reads; otherwise in the same order."""
    # A sink has all sinks above those that it reads, and those as well: it has more of them.
    return sorted(sinks, key=lambda name: len(upstream_of(pipeline, name)))
