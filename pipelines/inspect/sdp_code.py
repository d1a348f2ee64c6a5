"""Python source text of a declarative pipeline: views, tables, sinks and flows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from pipelines.model.pipeline import Decode, Format, OnError, Source
from pipelines.sources.josefine import options_of

_BAD = "_corrupt_record"


def source_view(name: str, source: Source, conditions: Sequence[str]) -> str:
    """The decoded rows of topics. A bad record is dropped, becomes null, or fails the query."""
    options = "".join(f"            {_text(k)}: {_text(v)},\n" for k, v in _options(source))
    lines = [
        f'rows = spark.readStream.format("josefine").options(\n        **{{\n{options}        }}',
        ").load()",
    ]
    for column, how in (("value", source.decode), ("key", source.decode_key)):
        if how is not None:
            lines += _decoded(column, how)
    body = _lines([*lines, *_kept(conditions), "return rows"])
    return f"@dp.temporary_view(name={_text(name)})\ndef read_{name}():\n{body}"


def _options(source: Source) -> list[tuple[str, str]]:
    return sorted(options_of(source).items())


def _decoded(column: str, how: Decode) -> list[str]:
    lines = []
    may_be_null = how.tombstones or column == "key" or how.on_error is OnError.NULL
    if not may_be_null:
        # from_json and from_csv return null for null, so a missing value would become a row.
        lines.append(f"rows = rows.where({_text(f'{column} is not null')})")
    text = f'F.col("{column}").cast("string")'
    if how.format is Format.STRING:
        return [*lines, f'rows = rows.withColumn("{column}", {text})']
    options = {"mode": "FAILFAST" if how.on_error is OnError.FAIL else "PERMISSIVE"}
    if how.format is Format.CSV:
        options["sep"] = how.separator
    bad, schema = _free(_BAD, how.schema.text), how.schema.text
    if how.on_error is not OnError.FAIL:
        options["columnNameOfCorruptRecord"] = bad
        schema = f"{schema}, {bad} STRING"
    read = {Format.JSON: "from_json", Format.CSV: "from_csv"}[how.format]
    lines += [
        f"schema = {_text(schema)}",
        f"parsed = F.{read}({text}, schema, {_table(options)})",
        f'rows = rows.withColumn("{column}", parsed)',
    ]
    if how.on_error is OnError.FAIL:
        return lines
    is_bad = f"{column}.{bad} is not null"
    if how.on_error is OnError.NULL:
        bad_is_null = f'F.when(~F.expr({_text(is_bad)}), F.col("{column}"))'
        lines.append(f'rows = rows.withColumn("{column}", {bad_is_null})')
    else:
        lines.append(f"rows = rows.where({_text(f'not ({is_bad})')})")
    lines.append(f'rows = rows.withColumn("{column}", F.col("{column}").dropFields({_text(bad)}))')
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


def _free(name: str, text: str) -> str:
    while re.search(rf"\b{name}\b", text, re.IGNORECASE):
        name += "_"
    return name


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
