"""YAML merge keys: `<<: *anchor` takes over the keys of another mapping.

The mapping's own keys win over merged ones, and the first of several merged mappings over the
later ones, as YAML's merge type defines it. A merged value keeps its own place in the file.
"""

from __future__ import annotations

from typing import Any

import yaml

PAIRS_MAX = 10_000
"""Maximum of merged keys of a file: a chain of merges must not become a gigabyte."""

_MERGE = "tag:yaml.org,2002:merge"


class MergeError(Exception):
    """A merge that cannot be done, at the node."""

    def __init__(self, node: yaml.Node, message: str) -> None:
        super().__init__(message)
        self.node = node


def merge_keys(root: yaml.Node) -> None:
    """Replace every `<<` below a freshly parsed node. Raises MergeError."""
    _Merger().visit(root)


class _Merger:
    """Visitor of the nodes, each once: aliases share nodes, and a node may contain itself."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._count = 0

    def visit(self, node: yaml.Node) -> None:
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for each in node.value:
                self.visit(each)
        elif isinstance(node, yaml.MappingNode):
            for _, value in node.value:
                self.visit(value)
            if any(key.tag == _MERGE for key, _ in node.value):
                node.value = self._merged(node)

    def _merged(self, node: yaml.MappingNode) -> list[tuple[yaml.Node, yaml.Node]]:
        own = [(key, value) for key, value in node.value if key.tag != _MERGE]
        taken: set[Any] = {key.value for key, _ in own if isinstance(key, yaml.ScalarNode)}
        merged: list[tuple[yaml.Node, yaml.Node]] = []
        for key, value in node.value:
            if key.tag != _MERGE:
                continue
            for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(source, yaml.MappingNode):
                    message = "`<<` takes an alias of a mapping, or a list of them"
                    raise MergeError(source, message)
                pairs = [pair for pair in source.value if pair[0].value not in taken]
                taken |= {name.value for name, _ in pairs}
                merged += pairs
        self._count += len(merged)
        if self._count > PAIRS_MAX:
            raise MergeError(node, "too many merged keys (aliases of aliases?)")
        return [*own, *merged]
