"""Python source text of a declarative pipeline: views, tables, sinks and flows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from pipelines.model.pipeline import Decode, Format, OnError, Source
from pipelines.sources.josefine import options_of

_ZONE = "spark.sql.session.timeZone"


class UndecodedError(ValueError):
    """Why the connector does not decode a source's values or keys as a run does."""


def source_view(
    name: str, source: Source, conditions: Sequence[str], conf: Mapping[str, str]
) -> str:
    """The decoded rows of topics. A bad record is dropped, becomes null, or fails the query.
    `conf`: Spark's settings in the file. Raises UndecodedError."""
    options = [f"{_text(k)}: {_text(v)}" for k, v in sorted(options_of(source).items())]
    how = source.decode
    if how is not None and how.format is Format.JSON:
        options += _json_options(how, conf)
    listed = "".join(f"            {each},\n" for each in options)
    lines = [
        f'rows = spark.readStream.format("josefine").options(\n        **{{\n{listed}        }}',
        ").load()",
    ]
    for column, each in (("value", how), ("key", source.decode_key)):
        if each is not None:
            lines += _decoded(column, each)
    body = _lines([*lines, *_kept(conditions), "return rows"])
    return f"@dp.temporary_view(name={_text(name)})\ndef read_{name}():\n{body}"


def json_schema(ddl: str) -> str:
    """The connector's option `jsonSchema`. Raises UndecodedError for a type that it does not have.

    Not by Spark's own parser of DDL, which needs a session.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    from josefine_arrow.schema.ddl_types import DdlError, struct_of
    from josefine_spark.base.errors import OptionError
    from josefine_spark.read.json_schema import parse_schema

    if _STRINGS.search(ddl):
        raise UndecodedError("a CHAR, a VARCHAR or a collation, which the connector does not know")
    try:
        kind = from_arrow_type(struct_of(ddl), prefer_timestamp_ntz=True)
        return parse_schema(kind.json()).json()
    except (DdlError, OptionError, PySparkException, TypeError) as error:
        raise UndecodedError("a type that the connector does not decode") from error


_STRINGS = re.compile(r"\b(VARCHAR|CHAR|CHARACTER)\s*\(|\bCOLLATE\b", re.IGNORECASE)


def _json_options(how: Decode, conf: Mapping[str, str]) -> list[str]:
    """The connector's decoder, the one of a run; the zone is the session's, unless the file has
    another."""
    zone = _text(conf[_ZONE]) if _ZONE in conf else f'spark.conf.get("{_ZONE}")'
    return [
        f'"jsonSchema": {_text(json_schema(how.schema.text))}',
        f'"jsonTimeZone": {zone}',
        f'"jsonStrict": "{str(how.strict).lower()}"',
        f'"jsonAccept": "{",".join(how.accept)}"',
    ]


def _decoded(column: str, how: Decode) -> list[str]:
    """The column's decoding. Of JSON, the connector has made the columns `json`, `json_reason`."""
    may_be_null = how.tombstones or column == "key" or how.on_error is OnError.NULL
    if how.format is Format.STRING:
        text = f'rows = rows.withColumn("{column}", F.col("{column}").cast("string"))'
        present = [] if may_be_null else [f"rows = rows.where({_text(f'{column} is not null')})"]
        return [*present, text]
    assert (how.format, column) == (Format.JSON, "value"), "sdp.py leaves the others out"
    lines = []
    good = "json_reason is null" if may_be_null else "value is not null and json_reason is null"
    if how.on_error is OnError.FAIL:
        # A condition, because Spark does not evaluate a column that no later SELECT reads.
        record = "topic, ' partition ', partition, ' offset ', offset"
        why = f"concat({record}, ': ', coalesce(json_reason, 'the value is null'))"
        good = f"case when {good} then true else raise_error({why}) end"
    if how.on_error is not OnError.NULL:
        lines.append(f"rows = rows.where({_text(good)})")
    lines.append('rows = rows.withColumn("value", F.col("json")).drop("json", "json_reason")')
    return lines


def table_view(name: str, path: str | None, table: str | None) -> str:
    """A lookup table."""
    read = f"load({_text(path)})" if path else f"table({_text(str(table))})"
    body = _lines([f'return spark.read.format("delta").{read}'])
    return f"@dp.temporary_view(name={_text(name)})\ndef read_{name}():\n{body}"


def sql_view(
    name: str, inputs: Mapping[str, tuple[str, bool]], sql: str, conditions: Sequence[str]
) -> str:
    """A transform. `inputs`: their names in the SELECT → (the view, whether it is a stream).

    A name in WITH hides the view of that name, so the SELECT stays unchanged.
    """
    views = ", ".join(
        f"{one} AS (SELECT * FROM {f'STREAM({view})' if streams else view})"
        for one, (view, streams) in inputs.items()
    )
    text = f"WITH {views} SELECT * FROM (\n{sql.strip().rstrip(';')}\n)"
    said = f"rows = spark.sql(\n        {_long(text)}\n    )"
    body = _lines([said, *_kept(conditions), "return rows"])
    return f"@dp.temporary_view(name={_text(name)})\ndef make_{name}():\n{body}"


def table(function: str, name: str, view: str, cluster_by: Sequence[str]) -> str:
    """A catalog table that a stream fills."""
    more = f", cluster_by={json.dumps([*cluster_by])}" if cluster_by else ""
    body = _lines([f"return spark.readStream.table({_text(view)})"])
    return f'@dp.table(name={_text(name)}, format="delta"{more})\ndef {function}():\n{body}'


def path_sink(name: str, path: str) -> str:
    """A table in a folder."""
    options = _table({"path": path})
    return f'dp.create_sink(name={_text(name)}, format="delta", options={options})'


def append_flow(function: str, sink: str, view: str) -> str:
    """The stream that fills a sink."""
    body = _lines([f"return spark.readStream.table({_text(view)})"])
    return f"@dp.append_flow(target={_text(sink)})\ndef {function}():\n{body}"


def _kept(conditions: Sequence[str]) -> list[str]:
    return [f"rows = rows.where({_text(each)})" for each in conditions]


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _text(value: str) -> str:
    """A Python literal on one line: JSON's escapes are valid in Python."""
    return json.dumps(value, ensure_ascii=False)


def _table(values: Mapping[str, str]) -> str:
    return json.dumps(dict(values), ensure_ascii=False)


def _long(value: str) -> str:
    """Adjacent literals, one for each line of the text."""
    return "\n        ".join(_text(line) for line in value.splitlines(keepends=True))
