"""Parser of a pipeline file: text to YAML nodes with marks, with one environment merged in.

An environment is a partial pipeline file. Its mappings are merged key by key; its other values
replace those of the file. If two keywords exclude each other (`every` and `available_now`), the
environment's keyword wins. A value from the environment keeps its own line and path.
"""

from __future__ import annotations

import difflib
from typing import Any

import yaml

from pipelines.base.errors import ConfigError, Place, Problem, WrongUsageError
from pipelines.config.keywords import EXACTLY_ONE
from pipelines.config.merge_keys import MergeError, merge_keys

FILE_BYTES_MAX = 1 << 20
_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser makes the same nodes ten times as fast, but its messages are less precise."""

_SECTIONS = {
    "trigger": ("trigger", 1),
    "dead_letter": ("dead_letter", 1),
    "sources": ("source", 2),
    "sinks": ("sink", 2),
}
"""First key of a path → the section with mutually exclusive keywords, and its depth."""

Tree = tuple[yaml.MappingNode, dict[int, str]]
"""The top of a file, and id of a node → its path, for nodes that came from an environment."""


def compose(text: str, file: str) -> yaml.MappingNode:
    """The top of the file. Raises ConfigError if it is not valid YAML or not a mapping."""
    place = Place(file=file, line=1, column=1)
    if len(text.encode()) > FILE_BYTES_MAX:
        message = f"larger than {FILE_BYTES_MAX} bytes: this is not a pipeline file"
        raise ConfigError([Problem(place=place, path="", message=message)])
    root = _composed(text, file)
    if not isinstance(root, yaml.MappingNode):
        message = "empty: expected keys such as version, name, sources, sinks, trigger"
        if root is not None:
            message = "expected keys such as version, name, sources, sinks, trigger at the top"
        raise ConfigError([Problem(place=place, path="", message=message)])
    try:
        merge_keys(root)
    except MergeError as error:
        mark = error.node.start_mark
        place = Place(file=file, line=mark.line + 1, column=mark.column + 1)
        raise ConfigError([Problem(place=place, path="", message=str(error))]) from error
    return root


def _composed(text: str, file: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=_FAST)
    except (yaml.YAMLError, RecursionError):
        pass
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = f"not YAML: {error.problem}"
        if error.context and error.problem_mark and error.context_mark:
            message += f" ({error.context} that starts at line {error.context_mark.line + 1})"
        lines = text.splitlines()
        if error.context == "while parsing a flow mapping" and "${" in lines[line - 1]:
            message += '; inside { } write "${NAME}" with quotes'
    except yaml.YAMLError as error:
        line, column, message = 1, 1, f"not YAML: {str(error).splitlines()[0]}"
    except RecursionError:
        line, column, message = 1, 1, "nested too deeply: this is not a pipeline file"
    place = Place(file=file, line=line, column=column)
    raise ConfigError([Problem(place=place, path="", message=message)])


def environments(root: yaml.MappingNode) -> list[str]:
    """The names of a file's environments."""
    table = _under(root, "environments")
    return [key.value for key, _ in table.value] if table else []


def with_environment(root: yaml.MappingNode, name: str | None) -> Tree:
    """The file with this environment merged in (None: without one). Raises WrongUsageError."""
    moved: dict[int, str] = {}
    if name is None:
        return root, moved
    table = _under(root, "environments")
    known = environments(root)
    if table is None or name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; there are {', '.join(known)}" if known else "; the file has no environments"
        hint = f"; did you mean `{close[0]}`?" if close else hint
        raise WrongUsageError(f"no environment `{name}`{hint}")
    over = next(value for key, value in table.value if key.value == name)
    if not isinstance(over, yaml.MappingNode):
        return root, moved
    return _merged(root, over, (), f"environments.{name}", moved), moved


def _under(root: yaml.MappingNode, word: str) -> yaml.MappingNode | None:
    for key, value in root.value:
        if key.value == word and isinstance(value, yaml.MappingNode):
            return value
    return None


def _merged(
    base: yaml.MappingNode,
    over: yaml.MappingNode,
    words: tuple[str, ...],
    path: str,
    moved: dict[int, str],
) -> yaml.MappingNode:
    """`words` lead to the two mappings in a file, `path` to the one of the environment."""
    dropped = _excluded(words, {key.value for key, _ in over.value})
    pairs = [(key, value) for key, value in base.value if key.value not in dropped]
    index = {key.value: at for at, (key, _) in reversed(list(enumerate(pairs)))}
    seen: set[Any] = set()
    for key, value in over.value:
        below = f"{path}.{key.value}"
        at = None if key.value in seen else index.get(key.value)
        seen.add(key.value)
        if at is None:
            moved[id(value)] = below
            pairs.append((key, value))
            continue
        old = pairs[at][1]
        if isinstance(old, yaml.MappingNode) and isinstance(value, yaml.MappingNode):
            pairs[at] = (pairs[at][0], _merged(old, value, (*words, key.value), below, moved))
        else:
            moved[id(value)] = below
            pairs[at] = (key, value)
    return yaml.MappingNode(base.tag, pairs, base.start_mark, base.end_mark, base.flow_style)


def _excluded(words: tuple[str, ...], said: set[Any]) -> set[str]:
    """The file's keywords that a keyword of the environment excludes."""
    section = _SECTIONS.get(words[0], ("", 0)) if words else ("", 0)
    if len(words) != section[1] or not words:
        return set()
    words = EXACTLY_ONE[section[0]]
    return {word for word in words if word not in said} if said & {*words} else set()
