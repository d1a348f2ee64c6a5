"""Pipelines on the page: how far the sinks of the files are that `--pipeline` names.

Asked while somebody looks, with what `josefine pipeline status` asks: tables' logs and checkpoints
on this machine, and the brokers of each file. No secret of a file is in what is told.
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
"""Between two looks at least; an answer serves all who look."""
SHARE = 20
"""Looking takes at most one part in so many of the time."""


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
    """One per process; on its event loop. Remembers the newest rows."""

    def __init__(self, asks: Sequence[Callable[[], list[Json]]]) -> None:
        """Each of `asks` makes the rows of one file; it may take a while, and raises nothing."""
        self._asks = asks
        self._rows: list[Json] = []
        self._until_s = float("-inf")
        self._lock = asyncio.Lock()

    async def rows(self) -> list[Json]:
        """At most so old as REST_S and SHARE say."""
        async with self._lock:
            began_s = monotonic()
            if began_s >= self._until_s:
                found = await asyncio.gather(*(asyncio.to_thread(ask) for ask in self._asks))
                self._rows = [row for each in found for row in each]
                now_s = monotonic()
                self._until_s = now_s + max(REST_S, SHARE * (now_s - began_s))
            return self._rows


def asker(pipeline: Pipeline) -> Callable[[], list[Json]]:
    """The rows of one file, asked now; what cannot be asked is one row that says why."""
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
