"""Reader of a pipeline file's tests: given records and expected rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.base.errors import Place
from pipelines.config.checks import DEAD_LETTER
from pipelines.config.gaps import gaps_of
from pipelines.config.records import exact, record_of
from pipelines.config.section import Reader, nearest
from pipelines.model.pipeline import Pipeline, Source
from pipelines.model.test_case import Case, Expectation, Record


def cases_of(top: Reader, pipeline: Pipeline) -> tuple[Case, ...]:
    """The tests in file order."""
    cases: list[Case] = []
    for table in top.tables("tests"):
        reader = Reader(table, "test", top.problems)
        name = reader.text("name") or ""
        if name in [case.name for case in cases]:
            reader.wrong_at("name", f"`{name}` is listed twice")
        given = _given(reader, pipeline)
        expected = tuple(
            _expectation(node, each, pipeline)
            for node, each in reader.named_tables("expect").items()
        )
        tables = {
            name: tuple(map(exact, rows))
            for name, rows in reader.named_lists("given").items()
            if name in pipeline.lookups
        }
        case = Case(name=name, place=table.place, given=given, expected=expected, tables=tables)
        cases.append(case)
    return tuple(cases)


def topic_of(source: Source) -> str:
    """The default topic of a record."""
    return source.topics[0] if source.topics else source.name


def _given(reader: Reader, pipeline: Pipeline) -> dict[str, tuple[Record, ...]]:
    given: dict[str, tuple[Record, ...]] = {}
    has_batches = any(each.state is not None for each in pipeline.transforms.values())
    for name, tables in reader.named_lists("given").items():
        source = pipeline.sources.get(name)
        if name in pipeline.lookups:
            continue
        if source is None:
            if gaps_of(reader.problems).has_name(name, "sources", "transforms"):
                continue
            known = [*pipeline.sources, *pipeline.lookups]
            hint = nearest(name, known) or f"; expected one of: {', '.join(known)}"
            section = reader.table_of("given")
            at = section.key_places[name] if section else reader.table.place
            path = f"{reader.path_of('given')}.{name}"
            reader.problem(at, path, f"no source `{name}`{hint}", f"sources.{name}")
            continue
        # A record has a key and a value; a row of a table has columns of its own.
        if source.table_stream is not None:
            message = (
                f"`{name}` is a table's stream, whose rows a test cannot give yet: leave it out"
            )
            reader.wrong_at("given", message)
            continue
        given[name] = tuple(
            record_of(
                Reader(table, "record", reader.problems),
                topic_of(source),
                number,
                source.decode,
                source.decode_key,
                has_batches=has_batches,
            )
            for number, table in enumerate(tables)
        )
    return given


def _expectation(node: str, reader: Reader, pipeline: Pipeline) -> Expectation:
    known = [*pipeline.sinks, *pipeline.transforms, *pipeline.checks, DEAD_LETTER]
    may_be = gaps_of(reader.problems).has_name(node, "sinks", "transforms", "checks")
    if node not in known and not may_be:
        hint = nearest(node, known) or f"; expected one of: {', '.join(known)}"
        message = f"no sink, transform or check `{node}`{hint}"
        reader.problem(reader.table.place, reader.table.path, message, f"transforms.{node}")
    rows: tuple[Mapping[str, Any], ...] | None = None
    places: dict[str, Place] = {}
    if reader.has("rows"):
        tables = reader.tables("rows")
        rows = tuple(exact(table) for table in tables)
        for table in tables:
            places = {**table.key_places, **places}
    count = reader.number("count")
    if rows is None and not reader.has("count"):
        reader.problem(reader.table.place, reader.table.path, "expected `rows` or `count`")
    return Expectation(
        node=node,
        place=reader.table.place,
        rows=rows,
        count=count,
        is_subset=reader.choice("columns") == "subset",
        path=reader.table.path,
        places=places,
    )
