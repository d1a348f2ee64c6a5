"""Whose a checkpoint is that lies where pipelines kept theirs before: `<checkpoint>/<sink>`. Pure.

Such a folder names no pipeline, so one of another pipeline with a sink of that name may lie there.
The commits in the sink's table name the queries that wrote them; a checkpoint whose query is among
them is the sink's. It is used where it is until it is set aside. Never taken: one that cannot be
the sink's. Never passed over in silence: one that might be, and says more than its table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum

from pipelines.exactly_once.offset_chain import Tip
from pipelines.exactly_once.reconcile import Checkpoint, Start, Unreadable, reconcile


class Owner(Enum):
    """Whose it is."""

    OURS = "ours"
    OTHERS = "others"
    UNKNOWN = "unknown"  # a person has to say


def whose(
    checkpoint: Checkpoint,
    query_id: str,
    tip: Tip | Unreadable | None,
    queries: Callable[[], Collection[str]],
    topics: Collection[str],
) -> Owner:
    """`queries`: those of all own commits in the table's log, asked only when it is needed.
    `topics`: those that the sink's source reads now."""
    if query_id and isinstance(tip, Tip) and tip.said.get("query") == query_id:
        return Owner.OURS
    if query_id and query_id in queries():
        return Owner.OURS
    planned = checkpoint.planned
    if planned is not None and not {topic for topic, _ in planned.end.ends} & {*topics}:
        return Owner.OTHERS
    if isinstance(tip, Unreadable):
        return Owner.OURS
    if tip is not None:
        # It never committed to this table: it may be of a run that was killed in its first batch.
        return Owner.OURS if isinstance(reconcile(checkpoint, tip), Start) else Owner.OTHERS
    return Owner.UNKNOWN if checkpoint.committed or checkpoint.damaged else Owner.OURS
