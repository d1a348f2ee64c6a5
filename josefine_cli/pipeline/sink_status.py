"""Output of a sink's state: a verdict, a row for each partition, the effect of a move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.exactly_once.offset_chain import Stop, Tip
from pipelines.inspect.offset_moves import Move

if TYPE_CHECKING:
    from josefine_broker.base.ids import TopicPartition
    from pipelines.inspect.sink_status import Sides

COLUMNS = ("partition", "begins", "table", "committed", "planned", "ends", "behind")


def head(sides: Sides) -> dict[str, Any]:
    """The common fields of every JSON report on a sink."""
    return {
        "sink": sides.sink.name,
        "table": sides.table,
        "mode": sides.sink.mode.value,
        "transaction": sides.tip.txn_version if sides.tip else None,
        "verdict": verdict(sides),
        "stops": sides.stop is not None,
    }


def partitions(sides: Sides) -> list[dict[str, Any]]:
    """A row for each known partition of any side."""
    table = sides.tip.reached.ends if isinstance(sides.tip, Tip) else {}
    checkpoint = sides.checkpoint
    sources: dict[str, Any] = {
        "begins": sides.topics.earliest if sides.topics else {},
        "table": table,
        "committed": checkpoint.committed.end.ends if checkpoint and checkpoint.committed else {},
        "planned": checkpoint.planned.end.ends if checkpoint and checkpoint.planned else {},
        "ends": sides.topics.latest.ends if sides.topics else {},
    }
    known: list[TopicPartition] = sorted({tp for ends in sources.values() for tp in ends})
    rows = []
    for tp in known:
        row: dict[str, Any] = {"topic": tp[0], "partition": tp[1]}
        row |= {name: ends.get(tp) for name, ends in sources.items()}
        end = row["ends"]
        row["behind"] = None if end is None else max(0, end - (table.get(tp, row["begins"]) or 0))
        rows.append(row)
    return rows


def steps(move: Move) -> list[dict[str, Any]]:
    """A row for each partition whose end moves."""
    before, after = move.start.ends, move.end.ends
    return [
        {"topic": tp[0], "partition": tp[1], "from": before.get(tp), "to": after.get(tp)}
        for tp in sorted({*before, *after})
        if before.get(tp) != after.get(tp)
    ]


def cell(name: str, row: dict[str, Any]) -> str:
    """A row's value for people."""
    if name == "partition":
        return f"{row['topic']}-{row['partition']}"
    value = row[name]
    return "-" if value is None else f"{value:,}"


def verdict(sides: Sides) -> str:
    """One line about what a run would do."""
    if sides.stop is not None:
        detail = f"; {sides.stop.detail}" if sides.stop.detail else ""
        return f"would stop: {sides.stop.verdict.value}{detail}"
    if sides.unknown:
        return f"not known: {sides.unknown}"
    if sides.tip is None:
        return "would start: nothing was committed yet"
    if sides.checkpoint is None:
        return "would continue at the table's end: there is no checkpoint"
    return "would continue: table and checkpoint agree"


def effects_of(sides: Sides, move: Move | Stop) -> list[str]:
    """The effect of a move on the sink's rows."""
    if isinstance(move, Stop):
        detail = f"; {move.detail}" if move.detail else ""
        return [f"cannot be followed: {move.verdict.value}{detail}"]
    return move.says(sides.sink.mode) or ["each record is read once"]
