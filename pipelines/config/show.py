"""A pipeline file as YAML again: one environment laid over it, its variables replaced if asked for.

Secrets are never read here: they stay the references that they are. What comes out is a pipeline
file that means the same; numbers and flags are written as they were, since a topic may be `010`.
"""

from __future__ import annotations

import yaml

from pipelines.base.variables import REFERENCE
from pipelines.config.loader import Items, Node, Scalar, Table

_TEXT = "tag:yaml.org,2002:str"
_RESOLVER = yaml.SafeLoader("")
_WIDTH = 100


def as_yaml(tree: Table, *, resolved: bool) -> str:
    """The file's words without comments; `resolved`: with values where variables were."""
    pairs = []
    for key, node in tree.nodes.items():
        if key == "environments":
            continue
        if key == "vars" and resolved and isinstance(node, Table):
            # What refers to a secret by its variable still does.
            node = _only_secrets(node)
            if not node.nodes:
                continue
        pairs.append((_text(key), _node(node, resolved)))
    top = yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=False)
    return str(yaml.serialize(top, Dumper=yaml.SafeDumper, allow_unicode=True, width=_WIDTH))


def _only_secrets(table: Table) -> Table:
    kept = {
        key: node
        for key, node in table.nodes.items()
        if isinstance(node, Scalar) and node.is_secret
    }
    return Table(place=table.place, path=table.path, nodes=kept)


def _node(node: Node, resolved: bool) -> yaml.Node:
    if isinstance(node, Table):
        pairs = [(_text(key), _node(each, resolved)) for key, each in node.nodes.items()]
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=not pairs)
    if isinstance(node, Items):
        items = [_node(each, resolved) for each in node.nodes]
        is_short = all(isinstance(each, yaml.ScalarNode) for each in items)
        return yaml.SequenceNode("tag:yaml.org,2002:seq", items, flow_style=is_short)
    return _scalar(node, resolved)


def _scalar(node: Scalar, resolved: bool) -> yaml.ScalarNode:
    has_reference = REFERENCE.search(node.raw) is not None
    if has_reference and (node.is_secret or node.is_unknown or not resolved):
        return _text(node.raw)
    if isinstance(node.value, str):
        return _text(node.text.replace("${", "$${"))
    tag = _RESOLVER.resolve(yaml.ScalarNode, node.text, (True, False))
    return yaml.ScalarNode(tag, node.text)


def _text(text: str) -> yaml.ScalarNode:
    """Lines stay lines: a folded SELECT is one long one, a block stays a block."""
    return yaml.ScalarNode(_TEXT, text, style="|" if "\n" in text.rstrip("\n") else None)
