"""Sources of configuration values: a YAML or TOML file, the environment, the command line.

Records the place of every value, so that an error can name file and line. Knows only the list of
keys of the model.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

KeyPath = tuple[str, ...]


class ConfigError(Exception):
    """An invalid configuration; the message is one sentence for the user."""


@dataclass(slots=True)
class Source:
    """Nested values and, per key path, their source."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, str] = field(default_factory=dict)

    def place(self, path: KeyPath) -> str:
        """The place of a key, of the nearest parent that has one, or of the first key below it."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.places:
                return self.places[path[:end]]
        below = (place for key, place in self.places.items() if key[: len(path)] == path)
        return next(below, self.name)

    def set(self, path: KeyPath, value: object, place: str) -> None:
        path = self._as_written(path)
        node = self.values
        for step in path[:-1]:
            child = node.setdefault(step, {})
            if not isinstance(child, dict):
                raise ConfigError(f"{place}: {'.'.join(path)}: {step} is not a section")
            node = child
        node[path[-1]] = value
        self.places[path] = place

    def _as_written(self, path: KeyPath) -> KeyPath:
        """The key in the spelling that exists already: a listener's name has capitals in a file,
        and none in the environment."""
        node: object = self.values
        written: list[str] = []
        for step in path:
            names = node if isinstance(node, dict) else {}
            written.append(
                next((each for each in names if str(each).lower() == step.lower()), step)
            )
            node = names.get(written[-1])
        return tuple(written)

    def apply_environment(self, env: Mapping[str, str], prefix: str) -> None:
        """`PREFIX` + SECTION__KEY; a value is read as a YAML scalar, so 3, true and null work."""
        for name in sorted(env):
            if not name.startswith(prefix):
                continue
            place = f"environment {name}"
            path = tuple(name[len(prefix) :].lower().split("__"))
            try:
                value = yaml.safe_load(env[name]) if env[name] else ""
            except yaml.YAMLError:
                value = env[name]
            self.set(path, value, place)

    def refuse_unknown(self, known: Sequence[str]) -> None:
        """Raise for the first key that is not in `known` (dotted), naming the nearest known key."""
        sections = sorted({key.partition(".")[0] for key in known})
        for section, content in self.values.items():
            if section not in sections:
                raise ConfigError(self._unknown((section,), sections, known))
            if content is None:
                content = self.values[section] = {}
            if not isinstance(content, dict):
                place = self.place((section,))
                raise ConfigError(
                    f"{place}: {section}: must be a section with keys, got {content!r}"
                )
            for key in content:
                if f"{section}.{key}" not in known:
                    raise ConfigError(self._unknown((section, str(key)), known, known))

    def refuse_unknown_below(self, path: KeyPath, known: Sequence[str]) -> None:
        """The same for a key whose value has sections, of any name, with the keys `known`."""
        sections: object = self.values
        for step in path:
            sections = sections.get(step) if isinstance(sections, dict) else None
        if not isinstance(sections, dict):
            return
        for name, content in sections.items():
            here = (*path, str(name))
            if content is None:
                content = sections[name] = {}
            if not isinstance(content, dict):
                raise ConfigError(
                    f"{self.place(here)}: {'.'.join(here)}: must be a section with keys,"
                    f" got {content!r}"
                )
            candidates = [".".join((*here, key)) for key in known]
            for key in content:
                if key not in known:
                    raise ConfigError(self._unknown((*here, str(key)), candidates, candidates))

    def known_part(self, path: KeyPath) -> KeyPath:
        """The part of a problem's path that exists here, at least two keys: a union type adds steps
        of its own (`retention_ms.constrained-int`)."""
        node: object = self.values
        for depth, step in enumerate(path):
            if not isinstance(node, dict) or step not in node:
                return path[: max(2, depth)]
            node = node[step]
        return path

    def _unknown(self, path: KeyPath, candidates: Sequence[str], known: Sequence[str]) -> str:
        dotted = ".".join(path)
        near = difflib.get_close_matches(dotted, candidates, n=1, cutoff=0.0)
        # A key in the wrong section is a likelier mistake than a similar spelling elsewhere.
        same_name = [key for key in known if key.rpartition(".")[2] == path[-1]]
        nearest = (same_name or near)[0]
        return f"{self.place(path)}: unknown key {dotted}; the nearest known key is {nearest}"


def read_source(path: Path | None) -> Source:
    """The values of a file; `None` is an empty configuration (all defaults)."""
    if path is None:
        return Source("defaults")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    if path.suffix in (".yaml", ".yml"):
        return _read_yaml(path, text)
    if path.suffix == ".toml":
        try:
            return Source(str(path), tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: is not TOML: {error}") from None
    raise ConfigError(f"{path}: the suffix must be .yaml, .yml or .toml")


def _read_yaml(path: Path, text: str) -> Source:
    source = Source(str(path))
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: is not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path}: is not YAML: {error}") from None
    if values is None:
        return source
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must be a mapping of sections, got {type(values).__name__}")
    source.values = values
    _note_lines(root, (), source)
    return source


def _note_lines(node: yaml.Node | None, path: KeyPath, source: Source) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    for key_node, value_node in node.value:
        key_path = (*path, str(key_node.value))
        place = f"{source.name}:{key_node.start_mark.line + 1}"
        if key_path in source.places:  # YAML forbids it, PyYAML silently uses the last one
            raise ConfigError(f"{place}: {'.'.join(key_path)}: is given twice")
        source.places[key_path] = place
        _note_lines(value_node, key_path, source)
