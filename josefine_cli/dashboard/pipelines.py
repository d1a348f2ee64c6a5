"""Pipelines on the page: the progress of the sinks in the files of `--pipeline`.

It is queried while the page is open, as in `josefine pipeline status`: tables' logs and checkpoints
on this machine, and the brokers of each file. The answer contains no secret of a file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.inspect.status import SinkStatus
    from pipelines.model.pipeline import Pipeline

Json = dict[str, Any]
REST_S = 5.0
"""Minimum time between two queries; all viewers share an answer."""
SHARE = 20
"""Queries take at most 1/SHARE of the time."""


def rows(pipeline: Pipeline, found: Sequence[SinkStatus]) -> list[Json]:
    """A row for each sink."""
    from pipelines.base.variables import hidden

    def told(text: str) -> str:
        return hidden(text, pipeline.secrets)

    return [
        {
            "pipeline": pipeline.name,
            "sink": each.sink,
            "table": told(each.table),
            "behind": each.behind,
            "version": each.version,
            "committed_ms": each.committed_ms,
            "stops": told(each.stops),
            "unknown": told(each.unknown),
        }
        for each in found
    ]


class PipelineWatcher:
    """The cache of the newest rows; one per process, on its event loop. Mutable."""

    def __init__(self, asks: Sequence[Callable[[], list[Json]]]) -> None:
        """Each of `asks` returns the rows of one file; it may be slow, and raises nothing."""
        self._asks = asks
        self._rows: list[Json] = []
        self._until_s = float("-inf")
        self._lock = asyncio.Lock()

    async def rows(self) -> list[Json]:
        """The rows, as old as REST_S and SHARE allow."""
        async with self._lock:
            began_s = monotonic()
            if began_s >= self._until_s:
                found = await asyncio.gather(*(asyncio.to_thread(ask) for ask in self._asks))
                self._rows = [row for each in found for row in each]
                now_s = monotonic()
                self._until_s = now_s + max(REST_S, SHARE * (now_s - began_s))
            return self._rows


def asker(pipeline: Pipeline) -> Callable[[], list[Json]]:
    """A query of one file's rows; an error becomes one row with the reason."""
    from pipelines.base.errors import PipelineError
    from pipelines.base.variables import hidden
    from pipelines.inspect.status import status
    from pipelines.sources.kinds import ANY_KIND

    def ask() -> list[Json]:
        try:
            return rows(pipeline, status(pipeline, ANY_KIND.look))
        except (PipelineError, OSError) as error:
            said = hidden(str(error), pipeline.secrets)
            empty = dict.fromkeys(("behind", "version", "committed_ms"))
            return [
                {"pipeline": pipeline.name, "sink": "", "table": "", "stops": "", "unknown": said}
                | empty
            ]

    return ask
