"""Pipelines on the page: the graph, sinks, checks and dead letters of the files of `--pipeline`.

It is queried while the page is open, as in `josefine pipeline status`: tables' logs and checkpoints
on this machine and in S3, and the brokers of each file. The answer contains no secret of a file.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, pairwise
from statistics import median
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.inspect.status import SinkStatus
    from pipelines.model.pipeline import Pipeline
    from pipelines.sinks.delta_log import LogEntry

Json = dict[str, Any]
REST_S = 5.0
"""Minimum time between two queries; all viewers share an answer."""
SHARE = 20
"""Queries take at most 1/SHARE of the time."""
COMMITS = 20
"""The newest commits of a table, whose times give the time between two."""


def page_of(pipeline: Pipeline, found: Sequence[SinkStatus]) -> Json:
    """One file: what does not change, and a row for each sink."""
    from pipelines.inspect.graph import graph_of
    from pipelines.model.lineage import checks_on

    # The page draws the graph itself: in its own colours, and as text that is never markup.
    graph = graph_of(pipeline, {each.sink: each.in_short for each in found})
    nodes = [*pipeline.sources, *pipeline.transforms]
    return {
        "pipeline": pipeline.name,
        "graph": {
            "nodes": [
                {
                    "id": node.id,
                    "lines": list(node.lines),
                    "shape": node.shape.value,
                    "column": node.column,
                }
                for node in graph.nodes
            ],
            "edges": [list(edge) for edge in graph.edges],
        },
        "checks": [
            {
                "name": check.name,
                "on": check.on,
                "expr": check.expr.text,
                "action": check.action.value.replace("_", " "),
            }
            for check in checks_on(pipeline, nodes)
        ],
        "sinks": [_row(pipeline, each) for each in found],
        "dead_letters": _dead_letters(pipeline),
    }


def _row(pipeline: Pipeline, status: SinkStatus) -> Json:
    between_ms, newest = _commits(pipeline, status)
    return {
        "sink": status.sink,
        "table": status.table,
        "behind": status.behind,
        "unit": status.unit,
        "lag_ms": status.lag_ms,
        "version": status.version,
        "committed_ms": status.committed_ms,
        "batch_ms": between_ms,
        "rows": None if newest is None else newest.metrics.get("numOutputRows"),
        "stops": status.stops,
        "settles": status.settles,
        "failed": status.failed,
        "failed_ms": status.failed_ms,
        "unknown": status.unknown,
    }


def _commits(pipeline: Pipeline, status: SinkStatus) -> tuple[int | None, LogEntry | None]:
    """(the median time between the newest commits in milliseconds, the newest commit)."""
    from pipelines.exactly_once.other_chains import ChainName
    from pipelines.inspect.writable_folders import table_folder
    from pipelines.sinks.delta_log import DeltaLogReader

    path = pipeline.sinks[status.sink].path
    folder = table_folder(pipeline, path, os.environ) if path else None
    if folder is None or status.version is None:
        return None, None
    name = ChainName(pipeline=pipeline.name, sink=status.sink)
    own = list(islice(DeltaLogReader(folder.files, folder.path, name.app_id).own(), COMMITS))
    times = [each.at_ms for each in own if each.at_ms is not None]
    steps = [later - earlier for later, earlier in pairwise(times)]
    return (round(median(steps)) if steps else None), next(iter(own), None)


def _dead_letters(pipeline: Pipeline) -> Json | None:
    """Counts by reason; None: there are none to show, or only Spark can read them."""
    from pipelines.inspect.dead_letter_reader import read_summary

    if not pipeline.dead_letters:
        return None
    found = read_summary(pipeline, 0, every=False, env=os.environ)
    if found is None:
        return None
    counts = [{"source": s, "reason": r, "count": n} for s, r, n in found.counts]
    return {"table": pipeline.dead_letters, "counts": counts}


class PipelineWatcher:
    """The cache of the newest answer; one per process, on its event loop. Mutable."""

    def __init__(self, asks: Sequence[Callable[[], Json]]) -> None:
        """Each of `asks` returns one file; it may be slow, and raises nothing."""
        self._asks = asks
        self._found: list[Json] = []
        self._until_s = float("-inf")
        self._lock = asyncio.Lock()

    async def pages(self) -> list[Json]:
        """Every file, as old as REST_S and SHARE allow."""
        async with self._lock:
            began_s = monotonic()
            if began_s >= self._until_s:
                self._found = list(
                    await asyncio.gather(*(asyncio.to_thread(ask) for ask in self._asks))
                )
                now_s = monotonic()
                self._until_s = now_s + max(REST_S, SHARE * (now_s - began_s))
            return self._found


def asker(pipeline: Pipeline) -> Callable[[], Json]:
    """A query of one file; an error becomes its `error`."""
    from pipelines.base.errors import PipelineError
    from pipelines.inspect.status import status
    from pipelines.sources.josefine import first_record_ms
    from pipelines.sources.kinds import ANY_KIND

    def ask() -> Json:
        try:
            found = page_of(pipeline, status(pipeline, ANY_KIND.look, first_record_ms))
        except (PipelineError, OSError) as error:
            found = {"pipeline": pipeline.name, "error": str(error)}
        clean: Json = _without(found, pipeline.secrets)
        return clean

    return ask


def _without(value: Any, secrets: Any) -> Any:
    """The same with the secrets of the file hidden in every text."""
    from pipelines.base.variables import hidden

    if isinstance(value, str):
        return hidden(value, secrets)
    if isinstance(value, Mapping):
        return {key: _without(each, secrets) for key, each in value.items()}
    if isinstance(value, list):
        return [_without(each, secrets) for each in value]
    return value
