"""One SQL statement that only reads, and the topics that it names, by DuckDB's own parser.

Rules: a statement returns rows and changes nothing; a table's name is a topic's name, in double
quotes if it has a dot or a dash. Names that the statement itself defines (WITH) are no topics.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from josefine_lake.query.refusals import QueryError

READING = ("SELECT", "EXPLAIN")
"""DuckDB's kinds of statements that only read; its SELECT has WITH, DESCRIBE and SUMMARIZE too."""
_EXPLAIN = re.compile(
    r"(?:--[^\n]*\n|/\*.*?\*/|\s)*EXPLAIN(?:\s+ANALYZE)?(?:\s*\([^)]*\))?\s", re.I | re.S
)
"""What comes before the statement of EXPLAIN."""
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
    inner = _EXPLAIN.sub("", text, count=1) if kind == "EXPLAIN" else text
    with _locked() as connection:
        # Parsed only: a look at tables and columns would need them here already.
        found = connection.execute("SELECT json_serialize_sql(?)", [inner]).fetchone()
    tree = json.loads(found[0])
    if tree["error"]:
        raise QueryError("EXPLAIN is for a statement that only reads: EXPLAIN SELECT ...")
    return Statement(text=text, names=tuple(sorted({*_tables(tree, frozenset())})))


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
    # An error of the fetch has the lines of another text, which has the statement inside.
    is_at_once = isinstance(error, duckdb.ParserException | duckdb.BinderException)
    place = re.search(r"\nLINE (\d+): ", text) if is_at_once else None
    return f"SQL: {first}" + (f" (line {place[1]})" if place and place[1] != "1" else "")


def _locked() -> Any:
    """A connection without files, extensions and settings that a statement could change."""
    return duckdb.connect(config={"enable_external_access": "false", "lock_configuration": "true"})


def _tables(node: Any, own: frozenset[str]) -> Iterator[str]:
    """The tables in a part of DuckDB's syntax tree. `own`: the names that WITH defines around it,
    in small letters. Raises QueryError for a name with a schema."""
    if isinstance(node, list):
        for each in node:
            yield from _tables(each, own)
    if not isinstance(node, dict):
        return
    if node.get("type") == "BASE_TABLE":
        yield from _topic(node, own)
    rest = dict(node)
    for entry in rest.pop("cte_map", {}).get("map", ()):
        name = entry["key"].lower()
        # A name is defined for what follows it, and within itself only if it is recursive.
        query = entry["value"]
        is_recursive = "RECURSIVE_CTE_NODE" in {_kind(each) for each in query.values()}
        yield from _tables(query, own | {name} if is_recursive else own)
        own |= {name}
    for each in rest.values():
        yield from _tables(each, own)


def _kind(node: Any) -> Any:
    return node.get("type") if isinstance(node, dict) else None


def _topic(node: Mapping[str, Any], own: frozenset[str]) -> Iterator[str]:
    name = node["table_name"]
    parts = [node.get("catalog_name"), node.get("schema_name"), name]
    if any(parts[:2]):
        joined = ".".join(filter(None, parts))
        raise QueryError(
            f"{joined}: topics have no schema or database; a topic's name with a dot is written "
            f'in double quotes: "{joined}"'
        )
    if name.lower() not in own:
        yield name


def _unknown(name: str, close: Collection[str], topics: Collection[str]) -> str:
    if close:
        return f"no topic '{name}'; {', '.join(sorted(close))} differ in case: write one in quotes"
    near = difflib.get_close_matches(name, topics, n=1)
    return f"no topic '{name}'" + (f": did you mean '{near[0]}'?" if near else "")
