"""The chain of a sink whose rows come through a state: it is followed batch by batch, not by
offsets alone. Pure.

The state of Spark's operators (open windows, rows that wait for their join) is in the checkpoint
and nowhere else, one version for each batch. A batch may make rows without a record of its own:
time has passed, a window is closed. So offsets cannot say whether the table has it; the query's id
and the batch's number, which every commit names, can. And no checkpoint is ever set aside here: a
table whose state is gone, or is of another batch, is a reason to stop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipelines.exactly_once.offset_chain import (
    Batch,
    Commit,
    Decision,
    Skip,
    Stop,
    Tip,
    Verdict,
    decide,
)
from pipelines.exactly_once.reconcile import Checkpoint, Unreadable
from pipelines.model.pipeline import Transform

STATE = "state"
"""The name in a commit of what its state was made by."""


def decide_in_turn(batch_id: int, query_id: str, batch: Batch, tip: Tip | None) -> Decision:
    """Decide on a batch of this query. The state goes on whatever is decided."""
    if tip is None:
        return decide(batch, tip)
    if tip.said.get("query") != query_id:
        return Stop(verdict=Verdict.STATE_ELSEWHERE)
    last = int(tip.said["batch"])
    if batch_id <= last:
        return Skip()
    if batch_id > last + 1:
        return Stop(verdict=Verdict.TABLE_BEHIND, detail=f"its last batch is {last}")
    decision = decide(batch, tip)
    if not isinstance(decision, Skip):
        return decision
    ahead = sorted(p for p, end in batch.end.ends.items() if batch.starts.get(p) != end)
    if ahead:
        return Stop(verdict=Verdict.OVERLAP, partitions=tuple(ahead))
    # No record is in it, and rows may be: of windows that are closed.
    return Commit(start=tip.reached.ends, end=tip.reached, txn_version=tip.txn_version + 1)


def state_stop(
    checkpoint: Checkpoint | None, query_id: str, tip: Tip | Unreadable | None, *, has_state: bool
) -> Stop | None:
    """Why a checkpoint's state is not the table's; None: it is, or there is nothing yet.

    `query_id`: of the checkpoint. `has_state`: whether there is any below it.
    """
    committed = checkpoint.committed if checkpoint else None
    if not isinstance(tip, Tip):
        if tip is None and committed is not None and not has_state:
            return Stop(verdict=Verdict.STATE_GONE)
        return None  # the other rules know what to say
    if checkpoint is None or checkpoint.planned is None:
        return Stop(verdict=Verdict.STATE_GONE)
    if tip.said.get("query") != query_id:
        return Stop(verdict=Verdict.STATE_ELSEWHERE)
    last, done = int(tip.said["batch"]), committed.batch if committed else -1
    if last < done:
        detail = f"its last batch is {last}, the checkpoint's {done}"
        return Stop(verdict=Verdict.TABLE_BEHIND, detail=detail)
    if last > checkpoint.planned.batch:
        detail = f"its last batch is {last}, the checkpoint's {checkpoint.planned.batch}"
        return Stop(verdict=Verdict.TABLE_AHEAD, detail=detail)
    if committed is not None and not has_state:
        return Stop(verdict=Verdict.STATE_GONE)
    return None


def made_by(transform: Transform, inputs: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """What a state is made by, as it is in each commit. `inputs`: their columns' types."""
    return {
        "transform": transform.name,
        "sql": " ".join(transform.said.text.split()),
        "watermark": {w.input: [w.column, w.delay_ms] for w in transform.watermarks},
        "inputs": {name: dict(columns) for name, columns in inputs.items()},
    }


def other_state(said: Mapping[str, Any], now: Mapping[str, Any] | None) -> str:
    """Why a state is not the one that the file's words go on with; "" when it is. `said`: what the
    sink's last commit says, empty without one. `now`: as `made_by` has it, None without a state."""
    before = said.get(STATE)
    if not said or before == now:
        return ""
    if before is None or now is None:
        had, has = ("none", "one") if before is None else ("one", "none")
        return f"was written with {had} of the transforms that have a state, the file has {has}"
    changed = [name for name in ("transform", "sql", "watermark", "inputs")
               if before.get(name) != now.get(name)]  # fmt: skip
    told = "; ".join(f"{name} was {_told(before.get(name))}" for name in changed)
    return f"has a state that was made by other words: {told}"


def _told(value: Any) -> str:
    return f"`{value}`" if isinstance(value, str) else json.dumps(value, sort_keys=True)


def ways_out(file: str, transform: str, sink: str) -> list[str]:
    """What a person can do whose state is gone."""
    return [
        f"The state of `{transform}` is in the checkpoint alone, and nothing can make it again "
        "in the middle of a topic. Two ways out:",
        f"  a new table: give sink `{sink}` a new name and a new `path` in {file}, and its source "
        "a `start` (an offset or a time before the first window that you want); it is built anew "
        "from there",
        "  without a state: no `watermark`, and a sink with `mode: merge`, whose table holds what "
        "the batches add up to and can go on without a checkpoint",
    ]
