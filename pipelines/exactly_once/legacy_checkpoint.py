"""The owner of a checkpoint in the old layout, `<checkpoint>/<sink>`. Pure.

Such a path names no pipeline, so it may belong to another pipeline with a sink of the same name.
The commits in the sink's table name the queries that wrote them; a checkpoint whose query is among
them belongs to the sink. It is used in place until it is set aside. A checkpoint that cannot be the
sink's is never used. One that might be, and has more than the table, is never silently ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum

from pipelines.exactly_once.checkpoint_start import Checkpoint, Start, Unreadable, reconcile
from pipelines.exactly_once.offset_chain import Tip


class Owner(Enum):
    """The pipeline that a checkpoint belongs to."""

    OURS = "ours"
    OTHERS = "others"
    UNKNOWN = "unknown"  # a person has to decide


def whose(
    checkpoint: Checkpoint,
    query_id: str,
    tip: Tip | Unreadable | None,
    queries: Callable[[], Collection[str]],
    topics: Collection[str],
) -> Owner:
    """`queries`: query ids of all own commits in the table's log, read only when they are needed.
    `topics`: those that the sink's source reads now."""
    if query_id and isinstance(tip, Tip) and tip.said.get("query") == query_id:
        return Owner.OURS
    # Not the last commit, but an earlier one. The log is read only here, because it may be long.
    if query_id and query_id in queries():
        return Owner.OURS
    planned = checkpoint.planned
    # It reads none of the sink's topics: it cannot be its checkpoint.
    if planned is not None and not {topic for topic, _ in planned.end.ends} & {*topics}:
        return Owner.OTHERS
    # The table cannot contradict: the start stops for the unreadable table anyway.
    if isinstance(tip, Unreadable):
        return Owner.OURS
    if tip is not None:
        # Its query never committed to this table. A run that was killed in its first batch leaves
        # such a checkpoint; then it fits the table.
        return Owner.OURS if isinstance(reconcile(checkpoint, tip), Start) else Owner.OTHERS
    # Without a commit on either side nothing can be written twice: such a checkpoint is safe to
    # use.
    return Owner.UNKNOWN if checkpoint.committed or checkpoint.damaged else Owner.OURS
