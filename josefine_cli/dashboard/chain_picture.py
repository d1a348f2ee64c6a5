"""The layout of the Raft chain's picture. No I/O.

Rules: a block's column is its distance from the oldest block shown; lane 0 is the live chain, and
each dead branch has a lane below it that is free where the branch starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Block = Mapping[str, Any]


def merged(chains: Iterable[Iterable[Block]], last: int) -> list[dict[str, Any]]:
    """The newest `last` blocks that any broker knows, parents first. A block that one broker has
    committed is committed, and a branch that is dead at one broker is dead."""
    known: dict[str, dict[str, Any]] = {}
    for chain in chains:
        for block in chain:
            found = known.setdefault(block["id"], dict(block))
            found["committed"] = found["committed"] or block["committed"]
            found["applied"] = found["applied"] or block["applied"]
            found["dead"] = (found["dead"] or block["dead"]) and not found["committed"]
    columns = _columns(known)
    return sorted(known.values(), key=lambda each: (columns[each["id"]], each["id"]))[-last:]


def picture(blocks: Iterable[Block]) -> dict[str, Any]:
    """{"nodes": […], "edges": [[parent, child], …], "columns": n, "lanes": n}."""
    known = {block["id"]: block for block in blocks}
    columns, lanes = _columns(known), _lanes(known)
    nodes = [
        {
            "id": each["id"],
            "column": columns[each["id"]],
            "lane": lanes[each["id"]],
            "state": _state(each),
            "what": each["what"],
        }
        for each in known.values()
    ]
    return {
        "nodes": nodes,
        "edges": [[b["parent"], b["id"]] for b in known.values() if b["parent"] in known],
        "columns": 1 + max(columns.values(), default=-1),
        "lanes": 1 + max(lanes.values(), default=-1),
    }


def _state(block: Block) -> str:
    if block["dead"]:
        return "dead"
    return "committed" if block["committed"] else "open"


def _columns(known: Mapping[str, Block]) -> dict[str, int]:
    """Block id → column; blocks may come in any order."""
    columns: dict[str, int] = {}
    for first in known:
        path = []
        id_ = first
        while id_ in known and id_ not in columns:
            path.append(id_)
            id_ = known[id_]["parent"]
        column = columns.get(id_, -1)
        for each in reversed(path):
            column += 1
            columns[each] = column
    return columns


def _lanes(known: Mapping[str, Block]) -> dict[str, int]:
    columns = _columns(known)
    lanes: dict[str, int] = {}
    ends: dict[int, int] = {}
    """Lane → last occupied column."""
    continued: set[str] = set()
    for block in sorted(known.values(), key=lambda each: (columns[each["id"]], each["id"])):
        id_, parent = block["id"], block["parent"]
        if not block["dead"]:
            lane = 0
        elif lanes.get(parent, 0) and parent not in continued:
            lane = lanes[parent]
            continued.add(parent)
        else:
            lane = 1
            while ends.get(lane, -1) >= columns[id_]:
                lane += 1
        lanes[id_] = lane
        ends[lane] = columns[id_]
    return lanes
