"""The drawing of the Raft chain as text: newest block on top, a lane per branch, a mark per state.

Pure: the body of `/cluster/chain` in, lines out. A branch leaves its parent to the right, so a fork
is where a lane bends back. Blocks that can no longer be committed are crossed out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """The characters of a drawing."""

    committed: str
    open: str
    dead: str
    root: str
    lane: str
    fork: str
    over: str
    cross: str
    bend: str
    more: str
    cut: str


UNICODE = Signs(
    committed="●",
    open="○",
    dead="✕",
    root="◆",
    lane="│",
    fork="├",
    over="─",
    cross="┼",
    bend="╯",
    more="┊",
    cut="…",
)
ASCII = Signs(
    committed="*",
    open="o",
    dead="x",
    root="#",
    lane="|",
    fork="|",
    over="_",
    cross="_",
    bend="/",
    more=":",
    cut="~",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line; `state` is committed, open, dead, or empty for a line without a block."""

    text: str
    state: str = ""


def draw(chain: Mapping[str, Any], signs: Signs, width: int | None) -> list[Line]:
    """The chain's blocks as lines of at most `width` characters (None: not limited)."""
    drawing = _Drawing(chain, signs)
    lines = drawing.lines()
    if width is None:
        return lines
    return [Line(text=_cut(each.text, width, signs.cut), state=each.state) for each in lines]


def _cut(text: str, width: int, sign: str) -> str:
    return text if len(text) <= width else text[: max(0, width - len(sign))] + sign


class _Drawing:
    """Walks from the newest block down; a lane is the id of the block that it waits for."""

    def __init__(self, chain: Mapping[str, Any], signs: Signs) -> None:
        self._chain = chain
        self._signs = signs
        self._blocks: list[Mapping[str, Any]] = sorted(chain["blocks"], key=_order, reverse=True)
        has_head = any(each["id"] == chain["head"] for each in self._blocks)
        self._lanes: list[str | None] = [chain["head"]] if has_head else []  # the trunk is leftmost
        self._has_trunk = not has_head
        """False above the head: its lane is reserved and not drawn yet."""
        self._id_width = max((len(each["id"]) for each in self._blocks), default=0)

    def lines(self) -> list[Line]:
        rows: list[tuple[str, str, str]] = []  # graph, text, state
        for block in self._blocks:
            column, bends = self._place(block["id"])
            if bends:
                rows.append((bends, "", ""))
            state = _state(block)
            self._has_trunk = self._has_trunk or column == 0
            rows.append((self._graph(column, self._sign(state)), self._words(block), state))
            self._lanes[column] = block["parent"]
        rows += self._end()
        graph_width = max((len(graph.rstrip()) for graph, _, _ in rows), default=0)
        return [
            Line(text=f"{graph.rstrip():<{graph_width}}  {text}".rstrip(), state=state)
            for graph, text, state in rows
        ]

    def _place(self, id_: str) -> tuple[int, str]:
        """The lane of this block, and the line that joins the other lanes of its children."""
        waiting = [column for column, wanted in enumerate(self._lanes) if wanted == id_]
        if not waiting:
            return self._new_lane(), ""
        keep, bend = waiting[0], waiting[1:]
        if not bend:
            return keep, ""
        line = self._bends(keep, bend)
        for column in bend:
            self._lanes[column] = None
        while self._lanes and self._lanes[-1] is None:
            self._lanes.pop()
        return keep, line

    def _new_lane(self) -> int:
        if None in self._lanes:
            return self._lanes.index(None)
        self._lanes.append(None)
        return len(self._lanes) - 1

    def _bends(self, keep: int, bend: Sequence[int]) -> str:
        signs, last = self._signs, bend[-1]
        cells = []
        for column, wanted in enumerate(self._lanes):
            gap = signs.over if keep <= column < last else " "
            if column == keep:
                sign = signs.fork
            elif column in bend:
                sign = signs.bend
            elif keep < column < last:
                sign = signs.over if wanted is None else signs.cross
            else:
                sign = signs.lane if self._is_drawn(column) else " "
            cells.append(sign + gap)
        return "".join(cells)

    def _graph(self, column: int, sign: str) -> str:
        lanes = self._lanes
        return "".join(
            (sign if at == column else self._signs.lane if self._is_drawn(at) else " ") + " "
            for at in range(len(lanes))
        )

    def _is_drawn(self, column: int) -> bool:
        return self._lanes[column] is not None and (column > 0 or self._has_trunk)

    def _sign(self, state: str) -> str:
        signs = self._signs
        return {"committed": signs.committed, "open": signs.open, "dead": signs.dead}[state]

    def _words(self, block: Mapping[str, Any]) -> str:
        names = [name for name in ("head", "commit", "applied") if self._chain[name] == block["id"]]
        label = f"({', '.join(names)}) " if names else ""
        dead = "(dead) " if block["dead"] else ""
        return f"{block['id']:<{self._id_width}}  {_size(block['size'])}  {label}{dead}" + str(
            block["what"]
        )

    def _end(self) -> list[tuple[str, str, str]]:
        """The lines below the last block: the root, or a note that older blocks are not shown."""
        root = self._chain["root"]
        if not self._blocks:
            return [(f"{self._signs.root} ", f"{root}  {_root_words(root)}", "")]
        rows = []
        at_root = [column for column, wanted in enumerate(self._lanes) if wanted == root]
        if at_root:
            column, bends = self._place(root)
            if bends:
                rows.append((bends, "", ""))
            graph = self._graph(column, self._signs.root)
            rows.append((graph, f"{root:<{self._id_width}}  {_root_words(root)}", ""))
        else:
            more = "".join(" " if each is None else self._signs.more for each in self._lanes)
            rows.append((" ".join(more), "older blocks are not shown (--last)", ""))
        return rows


def _order(block: Mapping[str, Any]) -> tuple[int, bool, int]:
    """By height; at the same height a dead block comes later, so that it takes an outer lane."""
    term, _, height = str(block["id"]).partition(":")
    return int(height), not block["dead"], int(term)


def _state(block: Mapping[str, Any]) -> str:
    if block["dead"]:
        return "dead"
    return "committed" if block["committed"] else "open"


def _root_words(root: str) -> str:
    if root == "0:0":
        return "genesis: where every chain begins"
    return "root: a snapshot stands for everything up to here"


def _size(size_bytes: int) -> str:
    if size_bytes < 10_000:
        return f"{size_bytes:>5} B"
    return f"{size_bytes / 1_000:>4.0f} kB"
