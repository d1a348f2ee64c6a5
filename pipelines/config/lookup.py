"""Reader of a source of type delta: a lookup table that transforms join with a stream.

Like every reader, it records problems and continues with harmless values.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.base.errors import Problem
from pipelines.config.decode import schema_of
from pipelines.config.loader import Scalar, Table
from pipelines.config.output_paths import place_in
from pipelines.config.section import Reader
from pipelines.config.source_keywords import TYPES
from pipelines.config.table_stream import OF_STREAMS, is_stream
from pipelines.model.lineage import inputs_of, lineage
from pipelines.model.lookup import Lookup
from pipelines.model.pipeline import Action, Pipeline

DELTA = "delta"


def is_lookup(reader: Reader) -> bool:
    """Whether a section of the file is a lookup."""
    node = reader.table.nodes.get("type")
    return isinstance(node, Scalar) and node.text == DELTA and not is_stream(reader)


def lookup_of(name: str, reader: Reader) -> Lookup:
    """The lookup table of a source section."""
    reader.refuse_others("type", DELTA, TYPES)
    for word in filter(reader.has, OF_STREAMS):
        reader.wrong_at(word, f"`{word}` is for a stream of the table: add `stream: true`")
    reader.flag("stream")
    path = reader.folder("path") if reader.has("path") else None
    table = reader.text("table") if reader.has("table") else None
    if reader.has("path") == reader.has("table"):
        message = "expected exactly one of `path` and `table`"
        reader.problem(reader.table.place, reader.table.path, message)
    if not reader.has("schema"):
        reader.missing("schema")
    return Lookup(
        name=name,
        place=reader.table.place,
        path=path,
        table=table,
        schema=schema_of(reader).text,
    )


def lookup_problems(pipeline: Pipeline, tree: Table) -> Iterator[Problem]:
    """Refuse sinks without a stream, and checks whose result depends on a lookup table."""
    lookups = pipeline.lookups
    for sink in pipeline.sinks.values():
        place, path = place_in(tree, "sinks", sink.name, "inputs")
        if sink.input in lookups:
            message = f"`{sink.input}` is a table, no stream: expected a transform that joins them"
            yield Problem(place=place, path=path, message=message)
        elif _of_tables_alone(pipeline, sink.input):
            message = f"`{sink.input}` is made of tables alone: expected a stream among its inputs"
            yield Problem(place=place, path=path, message=message)
    for check in pipeline.checks.values():
        used = [name for name in lookups if name in inputs_of(pipeline, check.on)]
        if check.action is Action.DEAD_LETTER and used:
            message = (
                f"`{check.on}` is joined with `{used[0]}`, which may change: a record would be a "
                "dead letter in one sink and none in another; expected warn, drop or fail"
            )
            place, path = place_in(tree, "checks", check.name, "action")
            yield Problem(place=place, path=path, message=message)


def _of_tables_alone(pipeline: Pipeline, node: str) -> bool:
    """Whether a transform has only lookup tables below it: no stream and no unknown name."""
    sources, transforms = lineage(pipeline, node)
    below = {name for each in transforms for name in pipeline.transforms[each].inputs}
    return bool(below) and not sources and below <= {*pipeline.lookups, *transforms} - {node}
