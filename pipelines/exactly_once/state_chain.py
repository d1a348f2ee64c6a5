"""The chain of a sink with operator state: it advances by batch number, not by offsets alone. Pure.

The state of Spark's operators (open windows, rows that wait for their join) is only in the
checkpoint, one version per batch. A batch may produce rows without reading a record: time has
passed and a window closes. So offsets do not show whether the table has a batch; the query id and
batch number in every commit do. No checkpoint is ever set aside here: a table whose state is gone,
or belongs to another batch, is a reason to stop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipelines.exactly_once.checkpoint_start import Checkpoint, Start, Unreadable
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
from pipelines.model.pipeline import Mode, Transform

STATE = "state"
"""The key in a commit under which `made_by` is stored."""
STORE = "RocksDBStateStoreProvider"
"""The state store of Python classes."""


def decide_in_turn(batch_id: int, query_id: str, batch: Batch, tip: Tip | None) -> Decision:
    """Decide on a batch of this query. Spark advances the state whatever the decision is."""
    # Without a commit there is no batch number to follow: offsets decide, as for other sinks. A
    # topic that was created again has none either; only the numbers of its commits continue.
    if tip is None or not tip.said:
        return decide(batch, tip)
    # Batch numbers of another query count other batches.
    if tip.said.get("query") != query_id:
        return Stop(verdict=Verdict.STATE_ELSEWHERE)
    last = int(tip.said["batch"])
    if batch_id <= last:
        return Skip()
    # A batch in between changed the state, and its rows are not in the table.
    if batch_id > last + 1:
        return Stop(verdict=Verdict.TABLE_BEHIND, detail=f"its last batch is {last}")
    decision = decide(batch, tip)
    if not isinstance(decision, Skip):
        return decision
    # The table has these offsets and not this batch: another run must have committed them.
    ahead = sorted(p for p, end in batch.end.ends.items() if batch.starts.get(p) != end)
    if ahead:
        return Stop(verdict=Verdict.OVERLAP, partitions=tuple(ahead))
    # The batch has no record, but may have rows: those of windows that it closed.
    return Commit(start=tip.reached.ends, end=tip.reached, txn_version=tip.txn_version + 1)


def state_stop(
    checkpoint: Checkpoint | None, query_id: str, tip: Tip | Unreadable | None, *, has_state: bool
) -> Stop | None:
    """Why the checkpoint's state does not match the table; None if it does or nothing exists yet.

    `query_id`: the checkpoint's. `has_state`: whether the checkpoint has any operator state.
    """
    committed = checkpoint.committed if checkpoint else None
    # A topic that was created again: nothing in it is of this state, as in a table that is new.
    if isinstance(tip, Tip) and not tip.said:
        if committed is not None:
            return Stop(verdict=Verdict.TABLE_HAS_NOTHING)
        tip = None
    if not isinstance(tip, Tip):
        if tip is None and committed is not None and not has_state:
            return Stop(verdict=Verdict.STATE_GONE)
        return None  # `reconcile` has the rules for a table without a readable commit
    if checkpoint is None or checkpoint.planned is None:
        return Stop(verdict=Verdict.STATE_GONE)
    if tip.said.get("query") != query_id:
        return Stop(verdict=Verdict.STATE_ELSEWHERE)
    last, done = int(tip.said["batch"]), committed.batch if committed else -1
    if last < done:
        detail = f"its last batch is {last}, the checkpoint's {done}"
        return Stop(verdict=Verdict.TABLE_BEHIND, detail=detail)
    # The checkpoint is older than the table: a copy or a restored one.
    if last > checkpoint.planned.batch:
        detail = f"its last batch is {last}, the checkpoint's {checkpoint.planned.batch}"
        return Stop(verdict=Verdict.TABLE_AHEAD, detail=detail)
    # The offset files are there and the state's are not: Spark would start with an empty state.
    if committed is not None and not has_state:
        return Stop(verdict=Verdict.STATE_GONE)
    return None


def store_stop(transform: Transform, provider: str) -> Stop | None:
    """Why a checkpoint's state cannot be read by the transform; None if it can. `provider`: the
    class of its state store, "" if no batch names one."""
    if transform.state is None or provider.endswith(f".{STORE}") or not provider:
        return None
    other = provider.rpartition(".")[2]
    detail = f"its state store is {other}, and the class of `{transform.name}` needs {STORE}"
    return Stop(verdict=Verdict.STATE_ELSEWHERE, detail=detail)


def start_again(start: Start, checkpoint: Checkpoint | None) -> Start:
    """The start of a sink whose first batch was planned and is not committed in the checkpoint.

    The target may have that batch already. Its records are read again all the same, because they
    make the first version of the state; Spark asks the source for the start of that batch alone.
    """
    if checkpoint is None or checkpoint.committed is not None or checkpoint.planned is None:
        return start
    return replace(start, at=checkpoint.planned.end.first or None)


def made_by(
    transform: Transform, inputs: Mapping[str, Mapping[str, str]], mode: Mode = Mode.APPEND
) -> dict[str, Any]:
    """The definition of a state, as each commit stores it. `inputs`: their columns' types. `mode`:
    the sink's."""
    # Absent in the other modes, so that the commits of earlier versions still match.
    output = {"output": mode.value} if mode is Mode.UPDATE else {}
    # The code of a class may change: Spark checks the columns of its values itself.
    state = transform.state
    kept = {"class": [*state.keys, state.schema, state.timers]} if state else {}
    return {
        **output,
        **kept,
        "transform": transform.name,
        # White space does not count as another definition.
        "sql": " ".join(transform.said.bound.split()),
        "watermark": {w.input: [w.column, w.delay_ms] for w in transform.watermarks},
        "inputs": {name: dict(columns) for name, columns in inputs.items()},
    }


def other_state(said: Mapping[str, Any], now: Mapping[str, Any] | None) -> str:
    """Why the pipeline file cannot continue a state; "" when it can. `said`: the metadata of the
    sink's last commit, empty without one. `now`: the result of `made_by`, None without a state."""
    before = said.get(STATE)
    if not said or before == now:
        return ""
    if before is None or now is None:
        had, has = ("none", "one") if before is None else ("one", "none")
        return f"was written with {had} of the transforms that have a state, the file has {has}"
    # The table's old text is shown: it is what the user has to go back to.
    changed = [name for name in ("transform", "sql", "watermark", "inputs", "class")
               if before.get(name) != now.get(name)]  # fmt: skip
    old = "; ".join(f"{name} was {_shown(before.get(name))}" for name in changed)
    if before.get("output") != now.get("output"):
        mode = f"mode was {before.get('output', Mode.APPEND.value)}"
        old = f"{old}; {mode}" if old else mode
    return f"has a state that was made by other words: {old}"


def _shown(value: Any) -> str:
    return f"`{value}`" if isinstance(value, str) else json.dumps(value, sort_keys=True)


def ways_out(file: str, transform: str, sink: str, *, is_topic: bool = False) -> list[str]:
    """The ways to continue after the state is gone."""
    what, key = ("topic", "topic") if is_topic else ("table", "path")
    other = "a table with `type: delta`, `mode: merge`" if is_topic else "a sink with `mode: merge`"
    holds = "which" if is_topic else "whose table"
    return [
        f"The state of `{transform}` is in the checkpoint alone, and nothing can make it again "
        "in the middle of a topic. Two ways out:",
        f"  a new {what}: give sink `{sink}` a new name and a new `{key}` in {file}, and its "
        "source a `start` (an offset or a time before the first window that you want); it is built "
        "again from there",
        f"  without a state: no `watermark`, and {other}, {holds} holds the sums of all batches "
        "and can continue without a checkpoint",
    ]
