"""YAML nodes: the fast parser makes what the slow one does, which tells errors better."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pipelines.config.example import EXAMPLE
from tests.unit.pipelines.config.test_validate import CASES, GOOD
from tests.unit.pipelines.lint.test_lint import BLOCK

TEXTS = [
    EXAMPLE.read_text(encoding="utf-8"),
    Path("conf/pipelines/flights.yaml").read_text(encoding="utf-8"),
    GOOD + BLOCK,
    "a: é\nb: [ 'ü', \"\\t\", |\n",
    "# top\n\n---\na: &x {b: 1}\nc: *x\nd: >+\n  e\n\n  f\n\ng: 'h\n  i'\n",
    *(GOOD.replace(old, new, 1) for (old, new), _ in CASES.values()),
]


def nodes(node):
    """Every node as (kind, tag, style, value, where it begins)."""
    at = (node.start_mark.line, node.start_mark.column, node.start_mark.index)
    if isinstance(node, yaml.ScalarNode):
        return ("scalar", node.tag, node.style, node.value, at)
    if isinstance(node, yaml.SequenceNode):
        return ("list", at, [nodes(each) for each in node.value])
    return ("table", at, [(nodes(key), nodes(value)) for key, value in node.value])


@pytest.mark.parametrize("text", TEXTS)
def test_both_parsers_make_the_same_nodes(text):
    made = []
    for loader in (yaml.SafeLoader, yaml.CSafeLoader):
        try:
            made.append(nodes(yaml.compose(text, Loader=loader)))
        except yaml.YAMLError:
            made.append("not YAML")

    slow, fast = made
    assert _plain(slow) == _plain(fast)


def _plain(value):
    """A plain scalar has no style in one and the empty one in the other."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if value == "" else value
