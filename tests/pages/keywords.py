"""docs/reference/keywords.md: every keyword of a pipeline file, from the keyword tables."""

from collections.abc import Iterator, Mapping

from pipelines.config.keyword import Kind, ModeWords, Word
from pipelines.config.keywords import EXACTLY_ONE, FORMATS, MODES, SINK_TYPES, WORDS
from tests.pages.markdown import cell, table

KINDS: Mapping[Kind, str] = {
    Kind.VERSION: "the number 1",
    Kind.TEXT: "text",
    Kind.TEXTS: "list of texts",
    Kind.COLUMNS: "a column, or a list of columns",
    Kind.CHOICE: "choice",
    Kind.FLAG: "true or false",
    Kind.COUNT: "whole number above 0",
    Kind.NUMBER: "whole number, 0 or more",
    Kind.RATIO: "number from 0 to 1",
    Kind.ANY: "any value",
    Kind.DURATION: "duration: `500ms`, `5s`, `2m`, `1h`",
    Kind.BATCHES: "number of batches: `100 batches`",
    Kind.PAUSES: "pause: `5s` or `1s..60s`",
    Kind.SETTINGS: "mapping of names to values",
    Kind.AGGREGATES: "mapping of columns to aggregates",
    Kind.OFFSETS: "mapping of topics to partitions to offsets",
    Kind.PARTITIONS: "mapping of topics to partitions",
    Kind.SECTION: "mapping",
    Kind.NAMED: "mapping of names to mappings",
    Kind.TABLES: "list of mappings",
    Kind.NAMED_TABLES: "mapping of names to lists of mappings",
    Kind.ENVIRONMENTS: "mapping of names to differences",
}

WHERE: Mapping[str, str] = {
    "": "At the top of the file",
    "source": "In `sources.NAME`",
    "security": "In `sources.NAME.security` and `sinks.NAME.security`",
    "start": "In `sources.NAME.start`",
    "stop": "In `sources.NAME.stop`",
    "limit": "In `sources.NAME.limit`",
    "split": "In `sources.NAME.split`",
    "decode": "In `sources.NAME.decode`",
    "decode value": "In `sources.NAME.decode.value`",
    "decode key": "In `sources.NAME.decode.key`",
    "transform": "In `transforms.NAME`",
    "state": "In `transforms.NAME.state`",
    "watermark": "In `transforms.NAME.watermark.INPUT`",
    "check": "In `checks.NAME`",
    "sink": "In `sinks.NAME`",
    "catalog": "In `sinks.NAME.catalog`",
    "deduplicate": "In `sinks.NAME.deduplicate`",
    "optimize": "In `sinks.NAME.optimize`",
    "vacuum": "In `sinks.NAME.vacuum`",
    "threshold": "In `dead_letter.threshold`",
    "test": "In each of `tests`",
    "record": "In each record of `tests.given.SOURCE` and of a source with `type: memory`",
    "expectation": "In `tests.expect.NODE`",
}
"""Section of the tables → the place in a file where its keywords are written."""


def page() -> str:
    """The whole page."""
    return "\n".join(lines()) + "\n"


def lines() -> Iterator[str]:
    """A section for each mapping of a file, then the keywords by mode, type and format."""
    yield from (
        "# Keywords of a pipeline file",
        "",
        "Every keyword, where it is written, and the value that it takes. Written by",
        "`./build.sh docs` from `pipelines/config/keywords.py`, the tables by which `josefine",
        "pipeline lint` judges a file. [Pipelines](pipelines/index.md) explains what they do.",
    )
    for section, words in WORDS.items():
        yield from ("", f"## {heading(section)}", "")
        yield from (f"{WHERE.get(section, f'In `{section}`')}.", "")
        yield from table(("keyword", "value", "expected"), (row(n, w) for n, w in words.items()))
        if section in EXACTLY_ONE:
            names = ", ".join(f"`{name}`" for name in EXACTLY_ONE[section])
            yield from ("", f"Exactly one of {names} is required.")
    for title, name, rules in (
        ("By the type of a sink", "type", SINK_TYPES),
        ("By the mode of a Delta sink", "mode", MODES),
        ("By the format of values and keys", "format", FORMATS),
    ):
        yield from ("", f"## {title}", "", "Keywords of another row are refused.", "")
        yield from table((name, "required", "allowed"), (own(n, r) for n, r in rules.items()))


def heading(section: str) -> str:
    """The heading of a section's table."""
    return f"Section {section}" if section else "The file"


def row(name: str, word: Word) -> tuple[str, ...]:
    """The keyword, the kind of its value, and the text of its complaint."""
    value = KINDS[word.kind]
    if word.of:
        value += f": [{word.of}](#section-{word.of.replace(' ', '-')})"
    required = ", required" if word.required else ""
    return f"`{name}`", value + required, cell(word.expected)


def own(name: str, rules: ModeWords) -> tuple[str, ...]:
    """A mode, type or format with its own keywords."""
    return (f"`{name}`", *(", ".join(f"`{w}`" for w in words) for words in _sets(rules)))


def _sets(rules: ModeWords) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return rules.required, rules.allowed
