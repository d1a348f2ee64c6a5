"""Single faults of a pipeline file: each keyword misspelt, of a wrong type, or left out.

The keywords of a file are found by its YAML nodes and the tables of keywords alone; the fault is an
edit of the text, so that places are those that a user sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from pipelines.config.environments import compose
from pipelines.config.keyword import Kind, Word
from pipelines.config.keywords import FORMATS, MODES, SINK_TYPES, WORDS
from pipelines.config.source_keywords import TYPES

CHOSEN = {"source": (("type", TYPES),), "sink": (("type", SINK_TYPES), ("mode", MODES)),
          "decode value": (("format", FORMATS),), "decode key": (("format", FORMATS),)}  # fmt: skip
MAPPINGS = (Kind.SECTION, Kind.NAMED, Kind.SETTINGS, Kind.AGGREGATES, Kind.NAMED_TABLES,
            Kind.OFFSETS, Kind.PARTITIONS, Kind.ENVIRONMENTS)  # fmt: skip


@dataclass(frozen=True)
class Keyword:
    """One use of a keyword in a file."""

    key: yaml.ScalarNode
    value: yaml.Node
    word: Word
    above: yaml.MappingNode
    above_key: yaml.Node
    is_required: bool
    is_part: bool


@dataclass(frozen=True)
class Fault:
    """A text with one fault, and the places (line, column) where a report may see it."""

    what: str
    text: str
    places: tuple[tuple[int, int], ...]


def keywords_of(text: str) -> list[Keyword]:
    """Every use of a keyword."""
    root = compose(text, "f.yaml")
    return list(_below(root, root, "", is_part=False))


def _below(node: yaml.Node, key: yaml.Node, section: str, *, is_part: bool) -> Iterator[Keyword]:
    if not isinstance(node, yaml.MappingNode):
        return
    said = {k.value: v.value for k, v in node.value if isinstance(v, yaml.ScalarNode)}
    required = {name for name, word in WORDS[section].items() if word.required}
    for chosen, table in CHOSEN.get(section, ()):
        required |= set(table[said[chosen]].required if said.get(chosen) in table else ())
    for name, value in node.value:
        word = WORDS[section].get(name.value)
        if word is None:
            continue
        needed = name.value in required and not is_part
        yield Keyword(name, value, word, node, key, needed, is_part)
        if word.kind is Kind.SECTION or (word.kind is Kind.CHOICE and word.of):
            yield from _below(value, name, word.of, is_part=is_part)
        elif word.kind is Kind.ENVIRONMENTS:
            for each, part in value.value:
                yield from _below(part, each, "", is_part=True)
        elif word.kind is Kind.NAMED:
            for each, part in value.value:
                yield from _below(part, each, word.of, is_part=is_part)
        elif word.kind is Kind.TABLES and word.of:
            for part in value.value:
                yield from _below(part, part, word.of, is_part=is_part)


def misspellings(word: str) -> list[str]:
    """Slips of a hand: a letter doubled, left out, another one, two swapped."""
    middle = len(word) // 2
    slips = [word[:middle] + word[middle] + word[middle:], word[:middle] + word[middle + 1 :],
             word[:middle] + "q" + word[middle + 1 :],
             word[: middle - 1] + word[middle] + word[middle - 1] + word[middle + 1 :]]  # fmt: skip
    return [slip for slip in dict.fromkeys(slips) if slip and slip != word]


def misspelt(text: str, use: Keyword, slip: str) -> Fault:
    start, end = use.key.start_mark.index, use.key.end_mark.index
    what = f"{use.key.value} -> {slip}"
    return Fault(what, text[:start] + slip + text[end:], (_at(use.key),))


def of_wrong_type(text: str, use: Keyword) -> Fault | None:
    """A list of lists for one value, a mapping for a list, a text for a mapping."""
    if use.word.kind is Kind.ANY:
        return None
    lists = (Kind.TEXTS, Kind.TABLES, Kind.COLUMNS)
    new = "some" if use.word.kind in MAPPINGS else "{ a: 1 }" if use.word.kind in lists else "[[1]]"
    start, end = use.value.start_mark.index, use.value.end_mark.index
    body = text[start:end]
    tail = body[len(body.rstrip()) :]
    is_block = use.above.flow_style is False and use.value.start_mark.line > use.key.start_mark.line
    edited = text[:start] + new + tail + text[end:]
    if is_block:  # on the line of its key
        start = use.key.end_mark.index
        edited = text[:start] + ": " + new + "\n" + " " * _indent(tail) + text[end:]
        at = (use.key.start_mark.line + 1, use.key.end_mark.column + 3)
    else:
        at = _at(use.value)
    return Fault(f"{use.key.value}: {new}", edited, (at, _at(use.key)))


def left_out(text: str, use: Keyword) -> Fault | None:
    """Without a required key, where the mapping has others."""
    if not use.is_required or len(use.above.value) < 2:
        return None
    start, end = use.key.start_mark.index, use.value.end_mark.index
    body = text[start:end]
    end = start + len(body.rstrip())
    if use.above.flow_style:
        rest = text[end:].lstrip()
        if rest.startswith(","):
            end = text.index(",", end) + 1
        else:
            start = text.rindex(",", 0, start)
        edited = text[:start] + text[end:]
    else:
        line = text.rindex("\n", 0, start) + 1 if "\n" in text[:start] else 0
        if text[line:start].strip():  # the first key of a list's item
            return None
        edited = text[:line] + text[end:].lstrip("\n")
    # The place of the whole file is that of its first key.
    is_top = use.above.start_mark.column == 0
    places = (_at(compose(edited, "f.yaml")),) if is_top else (_at(use.above_key), _at(use.above))
    return Fault(f"no {use.key.value}", edited, places)


def misspelt_names(text: str) -> Iterator[Fault]:
    """The name of a node misspelt: where it is defined, and in each list of inputs and `on`."""
    top = {key.value: value for key, value in compose(text, "f.yaml").value}
    sections = [top[name] for name in ("sources", "transforms", "checks", "sinks") if name in top]
    uses: dict[str, list[yaml.Node]] = {}
    for node in [value for section in sections for _, value in section.value]:
        for key, value in node.value:
            named = value.value if key.value == "inputs" else [value] if key.value == "on" else []
            for each in named:
                uses.setdefault(each.value, []).append(each)
                yield _slip_of(text, each, ())
    cases = top["tests"].value if "tests" in top else []
    for case in cases:
        for _, value in case.value:
            for key, _ in value.value if isinstance(value, yaml.MappingNode) else ():
                uses.setdefault(key.value, []).append(key)
    names = [key.value for section in sections for key, _ in section.value]
    for section in sections:
        for key, _ in section.value:
            if key.value in uses and names.count(key.value) == 1:
                yield _slip_of(text, key, tuple(_at(each) for each in uses[key.value]))


def _slip_of(text: str, node: yaml.Node, others: tuple[tuple[int, int], ...]) -> Fault:
    slip = node.value[:-1] + "q"
    start, end = node.start_mark.index, node.end_mark.index
    places = (_at(node), *others)
    return Fault(f"{node.value} -> {slip}", text[:start] + slip + text[end:], places)


def _indent(tail: str) -> int:
    return len(tail) - tail.rfind("\n") - 1


def _at(node: yaml.Node) -> tuple[int, int]:
    return (node.start_mark.line + 1, node.start_mark.column + 1)
