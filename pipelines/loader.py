"""YAML text to a tree whose every node knows its file, line and column.

Rules: no key twice, no anchors that blow up, no templating: only `${VAR}` and `${VAR:-default}`
(`$${` for a literal `${`), looked up in the file's `vars`, then the pipeline's `name`, then the
environment. A plain scalar is typed after the replacement, so `rows: ${N:-5000}` is a number; a
quoted one stays text, but for one that is a single reference, which YAML wants quoted inside { }:
`{ rows: "${N:-5000}" }` is a number, too. Every problem of a stage is reported, not only the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from pipelines.errors import ConfigError, Place, Problem

FILE_BYTES_MAX = 1 << 20
NODES_MAX = 10_000
"""An alias is a copy here; ten lines of aliases of aliases must not become a gigabyte."""
DEPTH_MAX = 32

Plain = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """One value, replaced and typed; `text` is it as written, after the replacement."""

    place: Place
    path: str
    value: Plain
    text: str
    is_quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A YAML sequence."""

    place: Place
    path: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A YAML mapping with text keys, in file order. Its place is its key's, so that what is missing
    below is looked for there; the top's is where the file begins."""

    place: Place
    path: str
    nodes: Mapping[str, Node]
    key_places: Mapping[str, Place] = field(default_factory=dict)


Node = Scalar | Items | Table

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_TYPED = ("int", "float", "bool", "null")


def load(text: str, file: str, env: Mapping[str, str]) -> Table:
    """Return the file's tree. Raises ConfigError with every problem of the failing stage."""
    if len(text.encode()) > FILE_BYTES_MAX:
        place = Place(file=file, line=1, column=1)
        message = f"larger than {FILE_BYTES_MAX} bytes: this is not a pipeline file"
        raise ConfigError([Problem(place=place, path="", message=message)])
    root = _compose(text, file)
    if not isinstance(root, yaml.MappingNode):
        place = Place(file=file, line=1, column=1)
        message = "empty: expected keys such as version, name, sources, sinks, trigger"
        if root is not None:
            message = "expected keys such as version, name, sources, sinks, trigger at the top"
        raise ConfigError([Problem(place=place, path="", message=message)])
    builder = _Builder(file, env)
    tree = builder.build(root)
    if builder.problems:
        raise ConfigError(builder.problems)
    assert isinstance(tree, Table)
    return tree


def _compose(text: str, file: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = f"not YAML: {error.problem}"
        if error.context and error.problem_mark and error.context_mark:
            message += f" ({error.context} that begins at line {error.context_mark.line + 1})"
        lines = text.splitlines()
        if error.context == "while parsing a flow mapping" and "${" in lines[line - 1]:
            message += '; inside { } write "${NAME}" with quotes'
    except yaml.YAMLError as error:
        line, column, message = 1, 1, f"not YAML: {str(error).splitlines()[0]}"
    place = Place(file=file, line=line, column=column)
    raise ConfigError([Problem(place=place, path="", message=message)])


class _Builder:
    """Walks PyYAML's nodes once, `name` and `vars` first: the other values may refer to them."""

    def __init__(self, file: str, env: Mapping[str, str]) -> None:
        self.file = file
        self.env = env
        self.vars: dict[str, str] = {}
        self.problems: list[Problem] = []
        self._resolver = yaml.SafeLoader("")
        self._count = 0

    def build(self, root: yaml.MappingNode) -> Node:
        tops = {key.value: value for key, value in root.value}
        name, variables = tops.get("name"), tops.get("vars")
        if isinstance(name, yaml.ScalarNode):
            self.vars["name"] = self._replaced(name, "name", quiet=True)
        if isinstance(variables, yaml.MappingNode):
            for key, value in variables.value:
                if isinstance(value, yaml.ScalarNode):
                    self.vars[key.value] = self._replaced(value, key.value, quiet=True)
        return self._node(root, "", 0)

    def _node(self, node: yaml.Node, path: str, depth: int, key_at: Place | None = None) -> Node:
        self._count += 1
        place = self._place(node.start_mark)
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
        text = self._replaced(node, path)
        value = self._typed(node, text)
        is_quoted = node.style in ("'", '"')
        return Scalar(place=place, path=path, value=value, text=text, is_quoted=is_quoted)

    def _table(self, node: yaml.MappingNode, path: str, depth: int, place: Place) -> Table:
        nodes: dict[str, Node] = {}
        places: dict[str, Place] = {}
        for key_node, value in node.value:
            at = self._place(key_node.start_mark)
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str) or key_node.tag == "tag:yaml.org,2002:null":
                self._problem(at, path, "a key must be a word")
                continue
            below = f"{path}.{key}" if path else key
            if key in nodes:
                first = places[key].line
                self._problem(at, below, f"this key is there already, at line {first}")
                continue
            places[key] = at
            nodes[key] = self._node(value, below, depth + 1, at)
        return Table(place=place, path=path, nodes=nodes, key_places=places)

    def _typed(self, node: yaml.ScalarNode, text: str) -> Plain:
        tag = node.tag
        is_plain = node.style is None and text != node.value
        if is_plain or _is_one_reference(node.value):
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

    def _replaced(self, node: yaml.ScalarNode, path: str, quiet: bool = False) -> str:
        parts: list[str] = []
        at = 0
        for match in _REFERENCE.finditer(node.value):
            parts.append(node.value[at : match.start()])
            at = match.end()
            if match[1] is None:
                parts.append("${")
                continue
            value = self._look_up(match[1])
            if isinstance(value, _Missing):
                if not quiet:
                    self._problem(self._place_in(node, match.start()), path, value.message)
                value = ""
            parts.append(value)
        return "".join(parts) + node.value[at:] if parts else node.value

    def _look_up(self, reference: str) -> str | _Missing:
        if reference.startswith("secret:"):
            return _Missing(f"${{{reference}}}: secrets are not supported yet")
        match = _NAME.fullmatch(reference)
        if match is None:
            return _Missing(f"${{{reference}}}: expected ${{NAME}} or ${{NAME:-default}}")
        name, default = match[1], match[2]
        for values in (self.vars, self.env):
            # As in a shell, `:-` also replaces an empty value.
            if values.get(name) or (default is None and name in values):
                return values[name]
        if default is not None:
            return default
        return _Missing(
            f"${{{name}}}: neither in `vars` nor in the environment, and without a default "
            f"(${{{name}:-…}})"
        )

    def _place(self, mark: yaml.Mark) -> Place:
        return Place(file=self.file, line=mark.line + 1, column=mark.column + 1)

    def _place_in(self, node: yaml.ScalarNode, index: int) -> Place:
        """The place of a character of a scalar; of the scalar itself when it spans lines."""
        place = self._place(node.start_mark)
        if node.start_mark.line != node.end_mark.line or node.style in ("|", ">"):
            return place
        column = place.column + index + (1 if node.style else 0)
        return Place(file=place.file, line=place.line, column=column)

    def _problem(self, place: Place, path: str, message: str) -> None:
        self.problems.append(Problem(place=place, path=path, message=message))


@dataclass(frozen=True, slots=True)
class _Missing:
    message: str


def _is_one_reference(text: str) -> bool:
    match = _REFERENCE.fullmatch(text)
    return match is not None and match[1] is not None


def walk(node: Node) -> Iterator[Node]:
    """Every node of a tree, parents first."""
    yield node
    children = () if isinstance(node, Scalar) else node.nodes
    for child in children.values() if isinstance(children, Mapping) else children:
        yield from walk(child)
