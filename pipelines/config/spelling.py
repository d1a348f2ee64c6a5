"""Corrector of misspelt keywords: it reads a file as it was meant, and reports each keyword once.

Without it, a misspelt `sinks:` would also be a missing `sinks`, unknown sinks in the tests and
unused transforms. It works on YAML nodes, before an environment is merged in, because the merge
compares keys. A correction is certain enough only if the mapping lacks the similar keyword and may
have it; any other unknown key is left to the reader of its section.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

import yaml

from pipelines.base.errors import Place, Problem
from pipelines.config.keyword import Kind, ModeWords, Word
from pipelines.config.keywords import EXACTLY_ONE, FORMATS, MODES, SINK_TYPES, WORDS
from pipelines.config.source_keywords import TYPES

NODES_MAX = 10_000
"""Maximum of visited mappings: the loader refuses aliases of aliases, which are left unchanged."""

EXTRA = "x-"
"""Prefix of keys at the top that the reader skips: a place for YAML anchors."""

_BELOW = (Kind.SECTION, Kind.CHOICE)
_CHOSEN: Mapping[str, tuple[tuple[str, Mapping[str, ModeWords]], ...]] = {
    "source": (("type", TYPES),),
    "sink": (("type", SINK_TYPES), ("mode", MODES)),
    "decode value": (("format", FORMATS),),
    "decode key": (("format", FORMATS),),
}
"""Section → its keywords whose value decides which other keywords it may have."""


def nearest_word(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The most similar known name, if any; `cutoff` is the least similarity, up to 1."""
    names = sorted(known)
    close = next(iter(difflib.get_close_matches(word, names, n=1, cutoff=cutoff)), None)
    # In so short a word, difflib calls `no` and `on` as far apart as `no` and `or`.
    return close or next((name for name in names if _one_slip(word, name)), None)


def _one_slip(word: str, name: str) -> bool:
    """Whether two words of one length differ by a letter, or by two swapped ones."""
    pairs = [(a, b) for a, b in zip(word, name, strict=False) if a != b]
    is_swap = len(pairs) == 2 and pairs[0] == pairs[1][::-1]
    return len(word) == len(name) > 1 and (len(pairs) == 1 or is_swap)


def unknown_key(key: str, close: str | None, words: Iterable[str]) -> str:
    """The message for a key that a section does not have."""
    hint = f"; did you mean `{close}`?" if close else ";"
    return f"unknown key `{key}`{hint} expected one of: {', '.join(words)}"


def correct(root: yaml.MappingNode, file: str) -> tuple[yaml.MappingNode, list[Problem]]:
    """The file with its misspelt keywords replaced, and a problem for each."""
    speller = _Speller(file)
    return speller.section(root, "", ""), speller.problems


class _Speller:
    """Visitor of the mappings that have keywords; it copies those that it changes."""

    def __init__(self, file: str) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._count = 0

    def section(
        self, node: yaml.MappingNode, section: str, path: str, *, is_part: bool = False
    ) -> yaml.MappingNode:
        self._count += 1
        if self._count > NODES_MAX:
            return node
        words = WORDS[section]
        meant = _meant(node, section, is_part=is_part)
        pairs = []
        for key, value in node.value:
            name, said = meant.get(id(key), key.value), key
            below = f"{path}.{key.value}" if path else str(key.value)
            if id(key) in meant:
                said = yaml.ScalarNode(key.tag, name, key.start_mark, key.end_mark, key.style)
                self._note(key, below, unknown_key(key.value, name, words))
            word = words.get(name) if isinstance(name, str) else None
            pairs.append((said, self._value(value, word, below, is_part) if word else value))
        return yaml.MappingNode(node.tag, pairs, node.start_mark, node.end_mark, node.flow_style)

    def _value(self, node: yaml.Node, word: Word, path: str, is_part: bool) -> yaml.Node:
        if word.kind in _BELOW and word.of and isinstance(node, yaml.MappingNode):
            return self.section(node, word.of, path, is_part=is_part)
        if word.kind is Kind.ENVIRONMENTS:
            return self._named(node, "", path, is_part=True)
        if word.kind is Kind.NAMED:
            return self._named(node, word.of, path, is_part=is_part)
        if word.kind is Kind.TABLES and word.of:
            return self._listed(node, word.of, path)
        return node

    def _named(self, node: yaml.Node, section: str, path: str, *, is_part: bool) -> yaml.Node:
        """A mapping of name: a mapping with the keywords of a section."""
        if not isinstance(node, yaml.MappingNode):
            return node
        pairs = [
            (key, self.section(value, section, f"{path}.{key.value}", is_part=is_part))
            if isinstance(value, yaml.MappingNode)
            else (key, value)
            for key, value in node.value
        ]
        return yaml.MappingNode(node.tag, pairs, node.start_mark, node.end_mark, node.flow_style)

    def _listed(self, node: yaml.Node, section: str, path: str) -> yaml.Node:
        """A list replaces the list of the file, so an environment's items are whole, too."""
        if not isinstance(node, yaml.SequenceNode):
            return node
        items = [
            self.section(each, section, f"{path}[{number}]")
            if isinstance(each, yaml.MappingNode)
            else each
            for number, each in enumerate(node.value)
        ]
        return yaml.SequenceNode(node.tag, items, node.start_mark, node.end_mark, node.flow_style)

    def _note(self, key: yaml.Node, path: str, message: str) -> None:
        mark = key.start_mark
        place = Place(file=self._file, line=mark.line + 1, column=mark.column + 1)
        self.problems.append(Problem(place=place, path=path, message=message))


def _meant(node: yaml.MappingNode, section: str, *, is_part: bool) -> dict[int, str]:
    """id of a key → the keyword that it is meant to be."""
    words = WORDS[section]
    keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
    there: set[str] = {key.value for key in keys}
    said = {
        key.value: value.value for key, value in node.value if isinstance(value, yaml.ScalarNode)
    }
    free = candidates(section, there, said)
    meant: dict[int, str] = {}
    for key in keys:
        is_extra = section == "" and not is_part and key.value.startswith(EXTRA)
        known = key.value in words
        if known or is_extra or (section == "" and key.value in WORDS["spark"]):
            continue
        close = nearest_word(key.value, free)
        if close is not None:
            meant[id(key)] = close
            free.discard(close)
    return meant


def candidates(section: str, there: set[str], said: Mapping[str, str]) -> set[str]:
    """The keywords that a mapping may have and has not. `said`: its single values."""
    exclusive = EXACTLY_ONE.get(section, ())
    excluded = {*exclusive} if there & {*exclusive} else set()
    for word, table in _CHOSEN.get(section, ()):
        own = table.get(said.get(word, ""))
        if own is not None:
            of_all = {w for each in table.values() for w in (*each.required, *each.allowed)}
            excluded |= of_all - {*own.required, *own.allowed}
    return set(WORDS[section]) - there - excluded
