"""Use of `value.position`, the position of a Debezium change, in a pipeline's texts.

A source gets the column only if the pipeline uses it. So an envelope whose position is unknown is
bad only where that would lose a change, and `value.*` of other pipelines stays as it is. A use that
this does not find is an unknown column for Spark, never a null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from josefine_arrow.formats.avro.schema import parse_record
from josefine_arrow.formats.debezium.envelope import source_names, with_position
from josefine_arrow.formats.debezium.position import POSITION
from pipelines.base.errors import Problem
from pipelines.model.lineage import lineage
from pipelines.model.pipeline import Decode, Format, Pipeline, Source

_FIELD = re.compile(
    rf"\b(?!row\b|before\b|after\b)\w+`?\s*\.\s*`?{POSITION}\b(?!\s*\()", re.IGNORECASE
)
"""A field of this name, but not a column of the row."""
_ALL_FIELDS = re.compile(r"\b(?!row\b|before\b|after\b|source\b)\w+`?\s*\.\s*\*", re.IGNORECASE)
_WORD = re.compile(rf"(?<![.`\w]){POSITION}\b(?!\s*\()", re.IGNORECASE)


def with_positions(pipeline: Pipeline, problems: list[Problem]) -> Pipeline:
    """The pipeline whose sources have the column where its texts use it."""
    sources = {
        name: replace(source, decode=_with_position(source.decode, problems))
        if source.decode
        and source.decode.format is Format.DEBEZIUM
        and _uses(pipeline, source, is_whole=not problems)
        else source
        for name, source in pipeline.sources.items()
    }
    return replace(pipeline, sources=sources)


def _with_position(decode: Decode, problems: list[Problem]) -> Decode:
    if decode.position or not decode.schema.text:
        return decode  # An empty schema is a problem already.
    if decode.avro:
        record = parse_record(decode.avro)
        if POSITION in (each.name for each in record.fields):
            return decode
        if "connector" not in source_names(record):
            message = f"`value.{POSITION}` needs the field `connector` of `source`: add it there"
            schema = decode.schema
            problems.append(Problem(place=schema.place, path=schema.path, message=message))
            return decode
    schema = replace(decode.schema, text=with_position(decode.schema.text))
    return replace(decode, position=True, schema=schema)


def _uses(pipeline: Pipeline, source: Source, *, is_whole: bool) -> bool:
    texts = [*_texts(pipeline, source, is_whole=is_whole)]
    if any(_FIELD.search(text) for text in texts):
        return True
    return any(_ALL_FIELDS.search(text) for text in texts) and any(map(_WORD.search, texts))


def _texts(pipeline: Pipeline, source: Source, *, is_whole: bool) -> Iterator[str]:
    """The SQL and Python through which a source's rows go, and what sinks name of them.

    Of a file that has problems (not `is_whole`) every text counts: a misspelt input must not make a
    second problem of the column.
    """
    nodes = {source.name}
    for name, transform in pipeline.transforms.items():
        if not is_whole or source.name in lineage(pipeline, name)[0]:
            nodes.add(name)
            yield transform.function.source if transform.function else transform.said.text
    yield from (check.expr.text for check in pipeline.checks.values() if check.on in nodes)
    for sink in pipeline.sinks.values():
        if sink.input in nodes and sink.latest is not None:
            yield from sink.latest.columns
            if sink.latest.delete_when is not None:
                yield sink.latest.delete_when.text
