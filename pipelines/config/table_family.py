"""`path` of a sink as a template, such as `lake/{topic}`: reader, refusals, and the check of names.

A value that is not a valid name makes a dead letter, by a check on the sink's input. So a record
never stops the tables of the others, and never writes outside of the template's folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipelines.base.errors import Problem
from pipelines.base.quoting import quoted
from pipelines.config.section import Reader
from pipelines.model.lineage import lineage, stateful_of
from pipelines.model.pipeline import Action, Check, Mode, Pipeline, Placed, Sink
from pipelines.model.table_family import (
    NAME_RULE,
    NAME_SQL,
    TABLES_LIMIT,
    TABLES_MAX,
    TableFamily,
    family_of,
    has_placeholder,
    name_of,
)

_REFUSED = ("deduplicate", "file", "optimize", "vacuum")


def family_in(reader: Reader, path: str | None, mode: Mode) -> TableFamily | None:
    """The family of a sink's section; None if its path is no template. `path`: absolute."""
    tables_max = reader.positive("max_tables") if reader.has("max_tables") else TABLES_MAX
    if path is None or not has_placeholder(path):
        if reader.has("max_tables"):
            message = "one table has no maximum: expected a `path` such as lake/{topic}"
            reader.wrong_at("max_tables", message)
        return None
    if tables_max is not None and tables_max > TABLES_LIMIT:
        reader.wrong_at("max_tables", f"expected {TABLES_LIMIT} at most; found {tables_max}")
    if mode is not Mode.APPEND:
        message = "tables of a template get rows appended: expected append, or a `path` of one "
        reader.wrong_at("mode", f"{message}table for each sink")
    for word in _REFUSED:
        if reader.has(word):
            message = f"`{word}` is for one table: leave it out where `path` is a template"
            reader.wrong_at(word, message)
    found = family_of(path, tables_max or TABLES_MAX)
    if isinstance(found, str):
        reader.wrong_at("path", found)
        return None
    return found


def with_families(pipeline: Pipeline, problems: list[Problem]) -> Pipeline:
    """The pipeline with a check of the names for each sink whose path is a template."""
    checks = dict(pipeline.checks)
    for sink in pipeline.sinks.values():
        if sink.family is None or not sink.input:
            continue
        for word, message in _messages(pipeline, sink, sink.family):
            path = f"sinks.{sink.name}.{word}"
            problems.append(Problem(place=sink.place, path=path, message=message))
        if sink.family.column is not None or _has_pattern(pipeline, sink):
            check = _check(pipeline, sink, sink.family)
            checks[check.name] = check
    return replace(pipeline, checks=checks)


def _has_pattern(pipeline: Pipeline, sink: Sink) -> bool:
    """Whether topics that the file does not name may come."""
    sources = (pipeline.sources[name] for name in lineage(pipeline, sink.input)[0])
    return any(not source.topics for source in sources)


def _messages(pipeline: Pipeline, sink: Sink, of: TableFamily) -> Iterator[tuple[str, str]]:
    """(keyword, message) of what cannot work."""
    if stateful_of(pipeline, sink) is not None:
        yield "path", "rows of a state belong to no record: expected the `path` of one table"
    check = f"table_name_{sink.name}"
    if check in pipeline.checks:
        yield "path", f"check `{check}` of the file has the name of the check of this template"
    if of.by_topic:
        for name in lineage(pipeline, sink.input)[0]:
            for topic in pipeline.sources[name].topics:
                if name_of(topic) is None:
                    message = f"topic `{topic}` cannot name a table: expected {NAME_RULE}"
                    yield "path", message
        return
    if pipeline.dead_letters is None:
        yield (
            "path",
            "`dead_letter`, where records go whose value is not a valid name of a table, is "
            "missing at the top",
        )
    for other in pipeline.sinks.values():
        if other.input == sink.input and other.family != of and other is not sink:
            yield (
                "path",
                f"sink `{other.name}` has the same input: rows whose value is not a valid name "
                "would be dead letters for it, too; give it a transform of its own",
            )


def _check(pipeline: Pipeline, sink: Sink, of: TableFamily) -> Check:
    column = of.column or "topic"
    path = f"sinks.{sink.name}.path"
    text = f"cast({quoted(column)} AS STRING) RLIKE '{NAME_SQL}'"
    return Check(
        name=f"table_name_{sink.name}",
        place=sink.place,
        on=sink.input if of.column else _source_of(pipeline, sink),
        on_place=sink.place,
        expr=Placed(text=text, place=sink.place, path=path),
        action=Action.FAIL if pipeline.dead_letters is None else Action.DEAD_LETTER,
        reason=f"`{column}` is not a valid name of a table: expected {NAME_RULE}",
    )


def _source_of(pipeline: Pipeline, sink: Sink) -> str:
    """A source always has `topic`; a transform may call it `_topic`."""
    return lineage(pipeline, sink.input)[0][0]
