"""The YAML output of `show`: a pipeline file with one environment merged in, variables optionally
replaced.

Secrets are never read here: they stay references. The output is an equivalent pipeline file.
Numbers and flags keep their written form, because a topic may be named `010`.
"""

from __future__ import annotations

import yaml

from pipelines.base.variables import REFERENCE
from pipelines.config.loader import Items, Node, Scalar, Table

_TEXT = "tag:yaml.org,2002:str"
_RESOLVER = yaml.SafeLoader("")
_WIDTH = 100


def as_yaml(tree: Table, *, resolved: bool) -> str:
    """The file without its comments; `resolved`: with variables replaced by their values."""
    pairs = []
    for key, node in tree.nodes.items():
        if key == "environments":
            continue
        if key == "vars" and resolved and isinstance(node, Table):
            # A variable that refers to a secret stays a reference.
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
    """Keep the lines: a folded SELECT is one long line, a block stays a block."""
    return yaml.ScalarNode(_TEXT, text, style="|" if "\n" in text.rstrip("\n") else None)
