"""The YAML loader: text to a tree in which every node knows its file, line, column and path.

Rules: no duplicate keys, no alias bombs, no templating (`base/variables.py` resolves references).
A plain scalar is typed after the replacement, so `rows: ${N:-5000}` is a number. A quoted scalar
stays text, except a single reference, which YAML requires to be quoted inside { }:
`{ rows: "${N:-5000}" }` is a number, too. Only invalid YAML hides the other problems of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml

from pipelines.base.errors import ConfigError, Place, Problem
from pipelines.base.variables import Gap, Replaced, Variables, is_one_reference
from pipelines.config.environments import compose, with_environment
from pipelines.config.spelling import EXTRA, correct

NODES_MAX = 10_000
"""The loader copies aliases: ten lines of aliases of aliases must not become a gigabyte."""
DEPTH_MAX = 32

Plain = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """One value, typed; `text` is `raw` after the replacement of references.

    `written` is the text in the file, with its quotes.
    `is_unknown`: it has a reference without a value. If that is wrong, it was reported already.
    """

    place: Place
    path: str
    value: Plain
    text: str
    raw: str = ""
    written: str = field(default="", repr=False)
    is_quoted: bool = False
    is_unknown: bool = False
    is_secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A YAML sequence."""

    place: Place
    path: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A YAML mapping with text keys, in file order. Its place is that of its key, so that a missing
    key is reported there; the place of the top is the start of the file."""

    place: Place
    path: str
    nodes: Mapping[str, Node]
    key_places: Mapping[str, Place] = field(default_factory=dict)


Node = Scalar | Items | Table

_UNKNOWN = Replaced(text="", gaps=(Gap(0, None),))
"""The value of a name whose own value is reported as a problem."""
_TYPED = ("int", "float", "bool", "null")
_YAML = "tag:yaml.org,2002:"
_TAGS = {f"{_YAML}{kind}" for kind in (*_TYPED, "str", "timestamp", "merge", "value", "seq", "map")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A file's tree, and the problems of its keys and references."""

    tree: Table
    problems: list[Problem]


def load(text: str, file: str, env: Mapping[str, str]) -> Table:
    """Return the file's tree. Raises ConfigError with every problem of its YAML."""
    loaded = load_all(text, file, Variables(env=env))
    if loaded.problems:
        raise ConfigError(loaded.problems)
    return loaded.tree


def load_all(text: str, file: str, variables: Variables, environment: str | None = None) -> Loaded:
    """Return the file's tree with one environment merged in, and its problems.

    Raises ConfigError if it is not valid YAML or not a mapping, WrongUsageError for an unknown
    environment.
    """
    corrected, misspelt = correct(compose(text, file), file)
    root, moved = with_environment(corrected, environment)
    builder = _Builder(text, file, variables, moved)
    tree = builder.build(root)
    misspelt = [each for each in misspelt if not _is_elsewhere(each.path, environment)]
    return Loaded(tree=tree, problems=[*builder.problems, *misspelt])


def _is_elsewhere(path: str, environment: str | None) -> bool:
    """Whether a path is in an environment that is not merged in, whose content is not read."""
    words = path.split(".")
    return words[0] == "environments" and words[1:2] not in ([], [environment])


class _Builder:
    """Visitor of PyYAML's nodes. It reads `name` and `vars` first: other values use them."""

    def __init__(
        self, text: str, file: str, variables: Variables, moved: Mapping[int, str]
    ) -> None:
        self.text = text
        self.file = file
        self.variables = variables
        self.problems: list[Problem] = []
        self._moved = moved
        self._resolver = yaml.SafeLoader("")
        self._count = 0
        self._told: set[str] = set()

    def build(self, root: yaml.MappingNode) -> Table:
        tops = {key.value: value for key, value in root.value}
        name, own = tops.get("name"), tops.get("vars")
        if isinstance(name, yaml.ScalarNode):
            self.variables.own["name"] = self.variables.replaced(name.value)
        else:  # its own problem, so that no `${name}` is another one
            self.variables.own["name"] = _UNKNOWN
        if isinstance(own, yaml.MappingNode):
            for key, value in own.value:
                self.variables.own[key.value] = (
                    self.variables.replaced(value.value)
                    if isinstance(value, yaml.ScalarNode)
                    else _UNKNOWN
                )
        elif own is not None:
            self.variables.must_exist = False
        return self._table(root, "", 0, self._place(root.start_mark))

    def _node(self, node: yaml.Node, path: str, depth: int, key_at: Place | None = None) -> Node:
        self._count += 1
        place = self._place(node.start_mark)
        path = self._moved.get(id(node), path)
        if node.tag not in _TAGS:
            tag = node.tag.replace(_YAML, "!!", 1)
            self._problem(place, path, f"the tag {tag} is not supported: leave it out")
        if self._count > NODES_MAX or depth > DEPTH_MAX:
            what = "nested too deeply" if depth > DEPTH_MAX else "too many values"
            problem = Problem(place=place, path=path, message=f"{what} (aliases of aliases?)")
            raise ConfigError([problem])
        if isinstance(node, yaml.MappingNode):
            return self._table(node, path, depth, key_at or place)
        if isinstance(node, yaml.SequenceNode):
            nodes = tuple(
                self._node(n, f"{path}[{i}]", depth + 1) for i, n in enumerate(node.value)
            )
            return Items(place=place, path=path, nodes=nodes)
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, path, place)

    def _scalar(self, node: yaml.ScalarNode, path: str, place: Place) -> Scalar:
        replaced = self.variables.replaced(node.value)
        for gap in replaced.gaps:
            if gap.message is not None and gap.message not in self._told:
                self._told.add(gap.message)
                self._problem(self._place_in(node, gap.index), path, gap.message)
        return Scalar(
            place=place,
            path=path,
            value=None if replaced.is_unknown else self._typed(node, replaced),
            text=replaced.text,
            raw=node.value,
            written=self.text[node.start_mark.index : node.end_mark.index],
            is_quoted=node.style in ("'", '"'),
            is_unknown=replaced.is_unknown,
            is_secret=replaced.is_secret,
        )

    def _table(self, node: yaml.MappingNode, path: str, depth: int, place: Place) -> Table:
        nodes: dict[str, Node] = {}
        places: dict[str, Place] = {}
        for key_node, value in node.value:
            at = self._place(key_node.start_mark)
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str) or key_node.tag == "tag:yaml.org,2002:null":
                self._problem(at, path, "a key must be a word")
                continue
            if not path and key.startswith(EXTRA):
                continue
            below = f"{path}.{key}" if path else key
            if key in nodes:
                first = places[key].line
                self._problem(at, below, f"duplicate key, first used at line {first}")
                continue
            places[key] = at
            if not path and key == "environments":
                nodes[key] = self._environments(value, at)
                continue
            nodes[key] = self._node(value, below, depth + 1, at)
        return Table(place=place, path=path, nodes=nodes, key_places=places)

    def _environments(self, node: yaml.Node, at: Place) -> Node:
        """Check names and kinds only: the content is read when an environment is merged in."""
        if not isinstance(node, yaml.MappingNode):
            return self._node(node, "environments", 1, at)
        nodes: dict[str, Node] = {}
        places: dict[str, Place] = {}
        for key, value in node.value:
            path, place = f"environments.{key.value}", self._place(key.start_mark)
            if key.value in nodes:
                first = places[key.value].line
                self._problem(place, path, f"duplicate key, first used at line {first}")
                continue
            places[key.value] = place
            if isinstance(value, yaml.MappingNode):
                nodes[key.value] = Table(place=place, path=path, nodes={})
            else:
                nodes[key.value] = self._node(value, path, 2)
        return Table(place=at, path="environments", nodes=nodes, key_places=places)

    def _typed(self, node: yaml.ScalarNode, replaced: Replaced) -> Plain:
        tag, text = node.tag, replaced.text
        is_plain = node.style is None and text != node.value
        if is_plain or is_one_reference(node.value):
            tag = self._resolver.resolve(yaml.ScalarNode, text, (True, False))
        kind = tag.rsplit(":", 1)[-1]
        if kind not in _TYPED:
            return text
        typed = yaml.ScalarNode(tag, text, node.start_mark, node.end_mark)
        try:
            value: Plain = self._resolver.construct_object(typed)
        except (ValueError, yaml.YAMLError):
            return text
        return value

    def _place(self, mark: yaml.Mark) -> Place:
        return Place(file=self.file, line=mark.line + 1, column=mark.column + 1)

    def _place_in(self, node: yaml.ScalarNode, index: int) -> Place:
        """The place of a character of a scalar; of the whole scalar if it spans several lines."""
        place = self._place(node.start_mark)
        if node.start_mark.line != node.end_mark.line or node.style in ("|", ">"):
            return place
        column = place.column + index + (1 if node.style else 0)
        return Place(file=place.file, line=place.line, column=column)

    def _problem(self, place: Place, path: str, message: str) -> None:
        self.problems.append(Problem(place=place, path=path, message=message))
