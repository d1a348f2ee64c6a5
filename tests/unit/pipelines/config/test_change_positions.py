"""Which sources of a file have `value.position`, and what lint says of texts in `order_by`."""

from __future__ import annotations

import json

import pytest

from pipelines.base.errors import ConfigError
from pipelines.config.change_positions import with_positions
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.lint.change_order import with_origins
from pipelines.lint.lint import lint_file
from pipelines.lint.sql_columns import columns_of_ddl
from tests.unit.josefine_arrow.formats.debezium.test_envelope import envelope

FILE = """\
version: 1
name: changes
spark: { checkpoint: /ck }
sources:
  ev:
    type: josefine
    bootstrap: h:1
    topics: [t]
    decode: { value: { format: debezium, schema: 'id BIGINT, position INT', on_error: null } }
transforms:
  rows:
    inputs: [ev]
    sql: "SELECT_HERE from ev"
sinks:
  out: { type: delta, inputs: [rows], path: /t, mode: upsert, keys: [id], order_by: [COLUMN] }
trigger: { available_now: true }
"""


def text(select, column="p", schema="id BIGINT, position INT"):
    said = FILE.replace("SELECT_HERE", select).replace("COLUMN", column)
    return said.replace("id BIGINT, position INT", schema)


def has_position(said):
    return validate(load(said, "f.yaml", {})).sources["ev"].decode.position


@pytest.mark.parametrize(
    "select",
    [
        "select value.row.id, value.position as p",
        "select ev.value.row.id, EV . `value` . `Position` as p",
        "select id, v.position as p from (select value.row.id, value v from ev) --",
        "select value.*, position as p",
    ],
)
def test_a_source_has_the_position_where_the_sql_uses_it(select):
    assert has_position(text(select))


def test_the_position_is_among_the_columns_that_lint_knows():
    """Once, also where it is asked for again."""
    pipeline = validate(load(text("select value.row.id, value.position as p"), "f.yaml", {}))

    decode = pipeline.sources["ev"].decode

    assert decode.schema.text.endswith(", `position` STRING")
    problems = []
    again = with_positions(pipeline, problems).sources["ev"].decode
    assert (again, problems) == (decode, [])


def test_only_texts_of_source_know_where_they_are_from():
    ddl = "`op` STRING, `source` STRUCT<`lsn`: BIGINT, `scn`: STRING, db STRING>"

    columns = with_origins(columns_of_ddl(ddl), ddl)

    fields = columns.names["source"].names
    assert {name: kind.origin for name, kind in fields.items()} == {
        "lsn": "", "scn": "value.source.scn", "db": "value.source.db",
    }  # fmt: skip
    assert columns.names["op"].origin == ""


@pytest.mark.parametrize(
    "select",
    [
        "select value.row.id, value.source.lsn as p",
        "select value.row.id, value.row.position as p",
        "select value.row.*, position(value.op, 'c') as p",
        "select value.*, value.source.lsn as p",
    ],
)
def test_a_source_has_no_position_where_nothing_uses_it(select):
    """So `value.*` of such files has the columns that it had."""
    assert not has_position(text(select))


def test_an_avro_envelope_needs_the_connector_for_a_position():
    select = "select value.row.id, value.position as p"

    with pytest.raises(ConfigError, match=r"f.yaml:9:\d+: sources.ev.*field `connector` of `sour"):
        validate(load(text(select, schema=envelope()), "f.yaml", {}))

    fields = [
        {"name": name, "type": kind} for name, kind in (("connector", "string"), ("lsn", "long"))
    ]
    source = {"type": "record", "name": "Source", "fields": fields}
    assert has_position(text(select, schema=envelope(source=source)))
    assert "position" in json.dumps(envelope(position="int"))
    assert not has_position(text(select, schema=envelope(position="int", source=source)))


@pytest.mark.parametrize(
    ("select", "origin"),
    [
        ("select value.row.id, value.source.scn as p", "scn"),
        ("select value.row.id, e.value.source.`FILE` p from ev e --", "file"),
        (
            "with a as (select value.source.*, value.row.id from ev) select id, gtid p from a --",
            "gtid",
        ),
        (
            "select value.row.id, coalesce(value.source.commit_scn, value.source.scn) p",
            "commit_scn",
        ),
    ],
)
def test_lint_warns_of_a_text_of_source_in_order_by(tmp_path, select, origin):
    (tmp_path / "f.yaml").write_text(text(select))

    found = [str(each) for each in lint_file(tmp_path / "f.yaml", {}).problems]

    assert found == [
        f"{tmp_path}/f.yaml:15:86: sinks.out.order_by: `p` is the text `value.source.{origin}`, "
        "which does not sort as the database's log does (1000000 comes before 999999): "
        "select `value.position` and order by it"
    ]


@pytest.mark.parametrize(
    "expression", ["value.position", "value.source.lsn", "cast(value.source.scn as decimal(20))"]
)
def test_lint_takes_positions_and_numbers_in_order_by(tmp_path, expression):
    (tmp_path / "f.yaml").write_text(text(f"select value.row.id, {expression} as p"))

    assert lint_file(tmp_path / "f.yaml", {}).problems == []
