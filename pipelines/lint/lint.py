"""The `josefine pipeline lint` checks that go beyond keywords, without Spark.

They parse the SQL with sqlglot and find unknown columns and tables in transforms, keys, aggregates
and `cluster_by`, and SELECTs that are not row by row. A run does not use them, because Spark checks
its SQL itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pipelines.base.errors import Place, Problem
from pipelines.base.variables import Variables
from pipelines.config.environments import compose, environments
from pipelines.config.gaps import Gaps, gaps_of
from pipelines.config.section import nearest
from pipelines.config.source_positions import place_at
from pipelines.config.spelling import correct
from pipelines.config.topic import columns_named, record_columns
from pipelines.config.validate import Examined, examine, read_text
from pipelines.lint.change_order import text_order_problems, with_origins
from pipelines.lint.changes import change_problems
from pipelines.lint.delta_refusals import refusals
from pipelines.lint.expectations import expectation_problems
from pipelines.lint.parameters import parameter_problems
from pipelines.lint.row_by_row import row_by_row_findings
from pipelines.lint.sql_columns import OPEN, SCALAR, Columns, columns_of_ddl, columns_of_select
from pipelines.lint.table_features import jar_problems
from pipelines.lint.warnings import notices
from pipelines.model.lineage import lineage
from pipelines.model.pipeline import (
    Check,
    Deduplicate,
    Format,
    Mode,
    Pipeline,
    Placed,
    Sink,
    Source,
    Transform,
)
from pipelines.model.table_family import why_no_place
from pipelines.model.watermark import Watermark
from pipelines.transforms.checks import RECORD, why_no_letters, why_not_steady
from pipelines.transforms.checks import record_columns as record_place
from pipelines.transforms.join_bounds import why_unbounded
from pipelines.transforms.scd2 import OWN
from pipelines.transforms.upsert import MARK

_SHAPING = ("type", "mode", "key", "keys", "aggregate", "order_by", "delete_when", "on_delete")
"""Keywords of a sink that decide which columns it writes."""
_BYTES_OF_SOURCE = ("key", "topic", "partition", "offset", "timestamp", "timestamptype")


def lint_file(
    file: str | os.PathLike[str], env: Mapping[str, str], environment: str | None = None
) -> Examined:
    """A file with all its problems in this environment; without one, in all environments.

    Secrets are not read. A variable that only another environment needs may be missing. Raises
    ConfigError for invalid YAML, WrongUsageError for an unknown environment.
    """
    return lint_text(read_text(file), os.fspath(file), env, environment)


def lint_text(
    text: str, name: str, env: Mapping[str, str], environment: str | None = None
) -> Examined:
    """The same for a file's text. `name`: the file, from whose folder other files are read."""
    first = _linted(text, name, Variables(env=env, with_secrets=False), environment)
    if environment is not None:
        return first
    problems = dict.fromkeys(first.problems)
    for other in environments(correct(compose(text, name), name)[0]):
        variables = Variables(env=env, with_secrets=False, must_exist=False)
        problems.update(dict.fromkeys(_linted(text, name, variables, other).problems))
    return Examined(pipeline=first.pipeline, problems=list(problems))


def _linted(text: str, file: str, variables: Variables, environment: str | None) -> Examined:
    examined = examine(text, file, variables, environment)
    pipeline = examined.pipeline
    gaps = gaps_of(examined.problems)
    problems = [*examined.problems, *notices(pipeline, gaps), *_column_problems(pipeline, gaps)]
    problems += change_problems(pipeline, gaps)
    if not gaps.touches("params") and not gaps.of_sql:
        problems += parameter_problems(pipeline)
    return Examined(pipeline=pipeline, problems=problems)


def _column_problems(pipeline: Pipeline, gaps: Gaps) -> Iterator[Problem]:
    made: dict[str, Columns] = {
        name: OPEN if gaps.covers(*_schema_paths(name)) else columns_of_source(source)
        for name, source in pipeline.sources.items()
    }
    for name, lookup in pipeline.lookups.items():
        made[name] = OPEN if gaps.covers(*_schema_paths(name)) else columns_of_ddl(lookup.schema)
    for name in _in_order(pipeline):
        transform = pipeline.transforms[name]
        tables = {one: made.get(one, OPEN) for one in transform.inputs}
        if gaps.covers(f"transforms.{name}.inputs") or not made.keys() >= tables.keys():
            tables = {**made, **tables}  # an unknown input may be meant to be any of them
        for mark in transform.watermarks:
            yield from _watermark_problems(mark, made.get(mark.input, OPEN))
        if len(transform.watermarks) > 1 and not gaps.touches(f"transforms.{name}.watermark"):
            wrong = why_unbounded(transform.said.text, [w.column for w in transform.watermarks])
            if wrong:
                yield _problem(transform.said.place, transform.said.path, wrong)
        if transform.state is not None and transform.inputs:
            made[name] = columns_of_ddl(transform.state.schema)
            yield from _state_problems(transform, made.get(transform.inputs[0], OPEN))
            continue
        if transform.function or not transform.said.text or not transform.inputs:
            made[name] = OPEN
            continue
        made[name], findings = columns_of_select(transform.said.text, tables)
        if not transform.watermarks and not gaps.touches(f"transforms.{name}.watermark"):
            lookups = [one for one in transform.inputs if one in pipeline.lookups]
            findings = (*findings, *row_by_row_findings(transform.said.text, lookups))
        for finding in findings:
            place = place_at(transform.said, finding.index)
            yield _problem(place, transform.said.path, finding.message)
    for check in pipeline.checks.values():
        yield from _check_problems(check, made.get(check.on, OPEN))
    written: dict[str, Columns] = {}
    for sink in pipeline.sinks.values():
        columns = made.get(sink.input, OPEN)
        if any(gaps.touches(f"sinks.{sink.name}.{word}") for word in _SHAPING):
            written[sink.name] = OPEN
            continue
        table = written[sink.name] = _columns_of_table(sink, columns)
        yield from _sink_problems(sink, columns)
        if sink.type == "delta":
            yield from refusals(pipeline, sink, columns, table)
            yield from jar_problems(pipeline, sink)
    yield from expectation_problems(pipeline, made, written, gaps)


def _schema_paths(name: str) -> Iterator[str]:
    """The paths of what a source's columns are made of."""
    yield f"sources.{name}.schema"
    for column in ("value", "key"):
        for word in ("format", "schema", "message", "type"):
            yield f"sources.{name}.decode.{column}.{word}"


def _in_order(pipeline: Pipeline) -> list[str]:
    """The transforms, each after its inputs, as far as there is such an order."""
    order: dict[str, None] = {}
    for name in pipeline.transforms:
        order.update(dict.fromkeys(lineage(pipeline, name)[1]))
    return list(order)


def columns_of_source(source: Source) -> Columns:
    """A source's columns as a transform sees them."""
    if source.table_stream is not None:
        return columns_of_ddl(source.table_stream.ddl)
    names: dict[str, Columns | None] = dict.fromkeys(_BYTES_OF_SOURCE, SCALAR)
    for column, how in (("value", source.decode), ("key", source.decode_key)):
        has_columns = how is not None and how.schema.text
        names[column] = columns_of_ddl(how.schema.text) if how and has_columns else SCALAR
        if how is not None and how.format is Format.DEBEZIUM:
            names[column] = with_origins(columns_of_ddl(how.schema.text), how.schema.text)
    if source.headers:
        names["headers"] = Columns({"key": SCALAR, "value": SCALAR})
    return Columns(names)


def _sink_problems(sink: Sink, columns: Columns) -> Iterator[Problem]:
    # Names first: a condition over a column that is not there would be a second complaint.
    path = f"sinks.{sink.name}"
    if columns.twice:
        twice = ", ".join(f"`{name}`" for name in columns.twice)
        message = f"column {twice} is there twice in `{sink.input}`"
        yield _problem(sink.place, f"{path}.inputs", message)
    for index, (key, place) in enumerate(zip(sink.keys, sink.key_places, strict=False)):
        yield from _missing(key, columns, sink, place, f"{path}.keys[{index}]")
    for name, place in columns_named(sink):
        yield from _missing(name, columns, sink, place, f"{path}.key")
    yield from _condition_problems(sink.tombstone_when, sink.input, columns)
    if sink.latest:
        for name, place in zip(sink.latest.columns, sink.latest.places, strict=False):
            yield from _missing(name, columns, sink, place, f"{path}.order_by")
        yield from text_order_problems(sink, columns)
        yield from _condition_problems(sink.latest.delete_when, sink.input, columns)
    if sink.deduplicate:
        yield from _deduplicate_problems(sink, sink.deduplicate, columns)
    own = [name for name in columns.names if name in OWN] if sink.mode is Mode.SCD2 else []
    if own:
        message = f"`{sink.input}` has a column `{own[0]}`, which is the sink's own"
        yield _problem(sink.place, path, f"{message}: leave it out there")
    if sink.family is not None and sink.family.by_topic and not columns.is_open:
        # Where the name is a column, the check of the names reports it.
        there = record_place(columns.names)
        if missing := [word for word in RECORD if word not in there]:
            yield _problem(sink.place, f"{path}.path", why_no_place(sink.input, missing))
    yield from _layout_problems(sink, columns)
    table = _columns_of_table(sink, columns)
    for condition in sink.constraints.values():
        yield from _condition_problems(condition, sink.name, table)
    for each in sink.aggregates:
        if each.argument:
            where = f"{path}.aggregate.{each.column}"
            yield from _missing(each.argument, columns, sink, each.place, where)


def _columns_of_table(sink: Sink, columns: Columns) -> Columns:
    """The columns of the sink's table or records for an input with these columns."""
    of_records = record_columns(sink)
    if of_records:
        return Columns(dict.fromkeys(of_records, SCALAR))
    if sink.merges:
        names = {key.lower(): columns.names.get(key.lower(), SCALAR) for key in sink.keys}
        return Columns({**names, **{each.column.lower(): SCALAR for each in sink.aggregates}})
    marks = (MARK,) if sink.latest and sink.latest.marks else ()
    own = (*marks, *(OWN if sink.mode is Mode.SCD2 else ()))
    return replace(columns, names={**columns.names, **dict.fromkeys(own, SCALAR)})


def _layout_problems(sink: Sink, columns: Columns) -> Iterator[Problem]:
    if columns.is_open and not sink.merges:
        return
    has = [*sink.keys, *(each.column for each in sink.aggregates)]
    if not sink.merges:
        has = [*_columns_of_table(sink, columns).names]
    for name, place, path in sink.layout_columns():
        if name.lower() not in map(str.lower, has):
            message = f"no column `{name}` in the sink's table; it has: {', '.join(has)}"
            yield _problem(place, path, message)


def _deduplicate_problems(sink: Sink, how: Deduplicate, columns: Columns) -> Iterator[Problem]:
    path = f"sinks.{sink.name}.deduplicate"
    for index, (key, place) in enumerate(zip(how.keys, how.key_places, strict=False)):
        yield from _missing(key, columns, sink, place, f"{path}.keys[{index}]")
    if how.time:
        yield from _missing(how.time, columns, sink, how.time_place, f"{path}.time")


def _state_problems(transform: Transform, columns: Columns) -> Iterator[Problem]:
    state = transform.state
    assert state is not None
    for key, place in zip(state.keys, state.key_places, strict=False):
        if not columns.is_open and key.lower() not in columns.names:
            hint = nearest(key.lower(), columns.names)
            message = f"no column `{key}` in `{transform.inputs[0]}`{hint}"
            yield _problem(place, f"transforms.{transform.name}.state.keys", message)


def _watermark_problems(mark: Watermark, columns: Columns) -> Iterator[Problem]:
    if columns.is_open or mark.column.lower() in columns.names:
        return
    hint = nearest(mark.column.lower(), columns.names)
    hint = hint or f"; it has {', '.join(f'`{each}`' for each in columns.names)}"
    yield _problem(mark.place, mark.path, f"no column `{mark.column}` in `{mark.input}`{hint}")


def _check_problems(check: Check, columns: Columns) -> Iterator[Problem]:
    yield from _condition_problems(check.expr, check.on, columns)
    wrong = why_not_steady(check, check.expr.text)
    if wrong:
        yield _problem(check.expr.place, check.expr.path, wrong)
    wrong = "" if columns.is_open else why_no_letters(check, columns.names)
    if wrong:
        yield _problem(check.on_place, f"checks.{check.name}.on", wrong)


def _condition_problems(condition: Placed | None, name: str, columns: Columns) -> Iterator[Problem]:
    """The problems of a condition over the columns of one table."""
    if condition is None or not condition.text:
        return
    select = f"select 1 from `{name}` where "
    _, findings = columns_of_select(select + condition.text, {name: columns})
    for finding in findings:
        place = place_at(condition, max(0, finding.index - len(select)))
        yield _problem(place, condition.path, finding.message)


def _missing(name: str, columns: Columns, sink: Sink, place: Place, path: str) -> Iterator[Problem]:
    if columns.is_open or name.lower() in columns.names:
        return
    hint = nearest(name.lower(), columns.names)
    hint = hint or f"; it has {', '.join(f'`{each}`' for each in columns.names)}"
    yield _problem(place, path, f"no column `{name}` in `{sink.input}`{hint}")


def _problem(place: Place, path: str, message: str) -> Problem:
    return Problem(place=place, path=path, message=message, stops_run=False)
