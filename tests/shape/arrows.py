"""Import arrows between modules and folders: cycles, and arrows against the layers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Arrows = Mapping[str, frozenset[str]]
"""Module → the modules that it imports, both with dotted names."""


def cycles(arrows: Arrows) -> list[list[str]]:
    """Groups of names that reach each other (Tarjan's strongly connected components), sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> Iterator[str]:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(arrows.get(name, ())):
            if other not in index:
                yield other
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    # The visits of a path are kept in a list: a recursion would be as deep as the longest path.
    for start in sorted(arrows):
        visits = [visit(start)] if start not in index else []
        while visits:
            following = next(visits[-1], None)
            if following is None:
                visits.pop()
            else:
                visits.append(visit(following))
    return sorted(found)


def folder_cycles(arrows: Arrows) -> list[list[str]]:
    """Cycles among the parts of one folder, where at least one part is a folder itself.

    An arrow between two modules counts between the first parts in which their paths differ. A
    cycle of modules alone is what `cycles` finds.
    """
    parts: dict[str, set[str]] = defaultdict(set)
    folders: set[str] = set()
    for module, imported in arrows.items():
        folders.update(_parents(module))
        for other in imported:
            pair = siblings(module, other)
            if pair is not None:
                parts[pair[0]].add(pair[1])
    grouped = cycles({name: frozenset(others) for name, others in parts.items()})
    return [group for group in grouped if folders & {*group}]


def siblings(module: str, other: str) -> tuple[str, str] | None:
    """The two parts of their nearest common folder that have the modules; None for a package and
    a module within it."""
    ours, theirs = module.split("."), other.split(".")
    common = 0
    while common < min(len(ours), len(theirs)) and ours[common] == theirs[common]:
        common += 1
    if common == min(len(ours), len(theirs)):
        return None
    return ".".join(ours[: common + 1]), ".".join(theirs[: common + 1])


def upward(arrows: Arrows, contracts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Arrows against the layers of import-linter's contracts, those of `ignore_imports` too."""
    found: set[str] = set()
    for contract in contracts:
        if contract["type"] != "layers":
            continue
        for container in contract.get("containers", [""]):
            places = layer_places(container, contract["layers"])
            for module, imported in arrows.items():
                for other in imported:
                    pair = siblings(module, other)
                    if pair is None or pair[0] not in places or pair[1] not in places:
                        continue
                    (ours, _), (theirs, is_apart) = places[pair[0]], places[pair[1]]
                    if ours > theirs or (ours == theirs and is_apart):
                        found.add(f"{module} -> {other}")
    return sorted(found)


def layer_places(container: str, layers: Sequence[str]) -> dict[str, tuple[int, bool]]:
    """Part of a container → the number of its layer, 0 on top, and whether the parts of that layer
    may not import each other: `a | b`, where those of `a : b` may."""
    prefix = f"{container}." if container else ""
    return {
        prefix + name.strip(" ()"): (place, ":" not in layer)
        for place, layer in enumerate(layers)
        for name in layer.replace(":", "|").split("|")
    }


def _parents(module: str) -> Iterator[str]:
    parts = module.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts)))
