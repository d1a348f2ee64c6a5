"""One SQL statement that only reads, and the topics that it names, by DuckDB's own parser.

Rules: a statement returns rows and changes nothing; a table's name is a topic's name, in double
quotes if it has a dot or a dash. Names that the statement itself defines (WITH) are no topics.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import duckdb

from josefine_lake.query.refusals import QueryError

READING = ("SELECT", "EXPLAIN")
"""DuckDB's kinds of statements that only read; its SELECT has WITH, DESCRIBE and SUMMARIZE too."""
_PARTS = re.compile(r'"(?:[^"]|"")*"|[^."]+')
"""The parts of a qualified name; those in double quotes may have dots."""
_READS_FILES = "file system operations are disabled by configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """`names`: the tables that it reads, as it writes them, sorted."""

    text: str
    names: tuple[str, ...]


def statement(text: str) -> Statement:
    """Raises QueryError for text that is not one reading statement."""
    try:
        found = duckdb.extract_statements(text)
    except duckdb.Error as error:
        raise QueryError(sentence(error)) from error
    if len(found) != 1:
        raise QueryError(f"expected one statement, found {len(found)}")
    kind = found[0].type.name
    if kind == "MULTI":
        raise QueryError("PIVOT makes a type of its own here: write its values, ON column IN (...)")
    if kind not in READING:
        raise QueryError(
            f"{kind} is not a statement that only reads: use SELECT, WITH, DESCRIBE or EXPLAIN"
        )
    with _locked() as connection:
        try:
            names = connection.get_table_names(text, qualified=True)
        except duckdb.Error as error:
            raise QueryError(sentence(error)) from error
    return Statement(text=text, names=tuple(sorted({_name(each) for each in names})))


def topics_of(names: Iterable[str], topics: Collection[str]) -> dict[str, str]:
    """Name in a statement → topic. SQL does not distinguish case, Kafka does: the exact name counts
    first, then the only one that differs in case. Raises QueryError."""
    found: dict[str, str] = {}
    for name in names:
        close = [each for each in topics if each.lower() == name.lower()]
        if name not in topics and len(close) != 1:
            raise QueryError(_unknown(name, close, topics))
        found[name] = name if name in topics else close[0]
    by_word: dict[str, str] = {}
    for topic in found.values():
        other = by_word.setdefault(topic.lower(), topic)
        if other != topic:
            raise QueryError(
                f"topics '{other}' and '{topic}' differ in case only, which SQL does not "
                "distinguish: query one of them at a time"
            )
    return found


def sentence(error: duckdb.Error) -> str:
    """DuckDB's error in one line."""
    text = str(error)
    if _READS_FILES in text or "Loading external extensions is disabled" in text:
        return "the statement reads topics alone: no files, folders, databases or extensions"
    first = text.split("\n")[0]
    place = re.search(r"\nLINE (\d+): .*\n( *)\^", text)
    return f"SQL: {first}" + (f" (line {place[1]})" if place else "")


def _locked() -> Any:
    """A connection without files, extensions and settings that a statement could change."""
    return duckdb.connect(config={"enable_external_access": "false", "lock_configuration": "true"})


def _name(qualified: str) -> str:
    """The topic in a table's name. Raises QueryError for a name with a schema."""
    parts = [
        part[1:-1].replace('""', '"') if part.startswith('"') else part
        for part in _PARTS.findall(qualified)
    ]
    if len(parts) != 1:
        joined = ".".join(parts)
        raise QueryError(
            f"{joined}: topics have no schema or database; a topic's name with a dot is written "
            f'in double quotes: "{joined}"'
        )
    return parts[0]


def _unknown(name: str, close: Collection[str], topics: Collection[str]) -> str:
    if close:
        return f"no topic '{name}'; {', '.join(sorted(close))} differ in case: write one in quotes"
    near = difflib.get_close_matches(name, topics, n=1)
    return f"no topic '{name}'" + (f": did you mean '{near[0]}'?" if near else "")
