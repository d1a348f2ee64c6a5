"""The parts of a pipeline file that could not be read, by the paths of their problems.

A check that looks at several parts asks here first. What it would report of a part that has a
problem already would be a second complaint about one cause: without `sources`, every input is
unknown and every transform unused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pipelines.base.errors import Problem

_ENVIRONMENT = re.compile(r"environments\.[^.]+\.")
_OF_GRAPH = re.compile(r"(sources|transforms|sinks)(\.[^.]+(\.inputs(\[\d+\])?)?)?")
"""A section of nodes, a node, or its inputs: what the edges of the graph are made of."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Paths as in the file without environments."""

    paths: frozenset[str] = frozenset()

    def covers(self, *paths: str) -> bool:
        """Whether one of these values, or a mapping that has it, could not be read."""
        return any(
            path == gap or path.startswith((f"{gap}.", f"{gap}["))
            for path in paths
            for gap in self.paths
        )

    def touches(self, path: str) -> bool:
        """The same, or a part of this value could not be read."""
        return self.covers(path) or any(
            gap.startswith((f"{path}.", f"{path}[")) for gap in self.paths
        )

    def has_name(self, name: str, *sections: str) -> bool:
        """Whether one of these sections may define the name: the part where it would be has a
        problem."""
        return self.covers(*(f"{section}.{name}" for section in sections))

    @property
    def of_graph(self) -> bool:
        """Whether an edge of the graph may be missing."""
        return any(_OF_GRAPH.fullmatch(path) for path in self.paths)

    @property
    def of_sql(self) -> bool:
        """Whether some SQL text could not be read."""
        words = ("sql", "expr", "delete_when", "tombstone_when", "constraints")
        return self.of_graph or any(path.rpartition(".")[2] in words for path in self.paths)


def gaps_of(problems: Iterable[Problem]) -> Gaps:
    """The gaps that these problems leave."""
    paths = (_ENVIRONMENT.sub("", each.about or each.path, count=1) for each in problems)
    return Gaps(frozenset(path for path in paths if path))
