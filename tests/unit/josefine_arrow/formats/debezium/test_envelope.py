"""What `format: debezium` says in a file: its columns in JSON and in Avro, its complaints."""

from __future__ import annotations

import json

import pytest

from josefine_arrow.formats.avro.schema import SchemaError, parse_record
from josefine_arrow.formats.debezium.envelope import (
    SOURCE_NAMES,
    row_of,
    source_names,
    wide_of,
    with_position,
)
from pipelines.base.errors import ConfigError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.lint.lint import columns_of_source
from tests.unit.pipelines.config.test_decode import DEAD, digest, pipeline, text
from tests.unit.pipelines.config.test_json_schema import complaints

ROW = '{ format: debezium, schema: "id BIGINT, name STRING" }'
NAMES = {"row", "deleted", "before", "after", "source", "op", "ts_ms"}


def envelope(**changed):
    """Avro's schema of an envelope, as the registry has Debezium's."""
    row = {
        "type": "record", "name": "Value", "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"], "default": None},
        ],
    }  # fmt: skip
    lsn = {"name": "lsn", "type": ["null", "long"], "default": None}
    source = {"type": "record", "name": "Source", "namespace": "io.debezium.connector",
              "fields": [lsn]}  # fmt: skip
    types = {
        "before": ["null", row],
        "after": ["null", "Value"],
        "source": source,
        "op": "string",
        "ts_ms": ["null", "long"],
        **changed,
    }
    fields = [
        {"name": name, "type": kind, **({"default": None} if isinstance(kind, list) else {})}
        for name, kind in types.items()
        if kind is not None
    ]
    said = {"type": "record", "name": "Envelope", "namespace": "shop.customers", "fields": fields}
    return json.dumps(said)


def in_avro(schema, more=", registry: 'http://localhost:8081'"):
    return f"{{ format: debezium, schema: '{schema}'{more} }}"


@pytest.mark.parametrize("said", [ROW, in_avro(envelope())], ids=["json", "avro"])
def test_the_columns_are_the_row_and_the_envelopes(said):
    made = pipeline(said)

    value = columns_of_source(made.sources["raw"]).names["value"]

    assert set(value.names) == NAMES
    assert set(value.names["row"].names) == set(value.names["after"].names) == {"id", "name"}
    assert "lsn" in value.names["source"].names
    assert complaints(text(said)) == []


def test_documents_of_mongodb_have_the_rows_columns_and_their_update():
    """A file without the keyword has no such columns."""
    said = ROW.replace(" }", ", documents: true }")

    value = columns_of_source(pipeline(said).sources["raw"]).names["value"]

    assert set(value.names) == {*NAMES, "updatedescription"}
    assert set(value.names["after"].names) == {"id", "name"}
    assert complaints(text(said)) == []
    assert digest(said) != digest(ROW)


def test_a_change_of_a_files_test_is_avro_by_the_envelopes_schema():
    """Golden bytes: a schema's number, null, a Value, no lsn, "c", no time."""
    tests = (
        "tests: [{name: t, given: {raw: [{value: {op: c, source: {}, after: {id: 3}}}]}, "
        "expect: {clean: {count: 1}}}]\n"
    )

    made = validate(load(text(in_avro(envelope())) + tests, "f.yaml", {}))

    expected = b"\0\0\0\0\0" + b"\0" + b"\x02\x06\0" + b"\0" + b"\x02c" + b"\0"
    assert made.cases[0].given["raw"][0].value == expected


BAD = {
    "no schema": ("{ format: debezium }", "`schema` is missing"),
    "a row of unknown types": (
        '{ format: debezium, schema: "id BIGNT" }',
        "sources.raw.decode.value.schema: no type `BIGNT`; did you mean `BIGINT`?",
    ),
    "the schema of a row, not of its envelope": (
        in_avro('{"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}]}'),
        "not a valid Avro schema: no envelope of Debezium: it has no field `before`",
    ),
    "rows of two types": (
        in_avro(envelope(after=["null", {"type": "record", "name": "Other",
                                         "fields": [{"name": "id", "type": "int"}]}])),
        "`before` and `after` are not of one type",
    ),
    "a row that is no record": (in_avro(envelope(before=["null", "int"], after=["null", "int"])),
                                "`before` is no record"),
    "an operation that is a number": (in_avro(envelope(op="int")), "`op` is no string"),
    "a field with a name of ours": (in_avro(envelope(row="int")), "field `row` has the name of"),
    "strict Avro": (in_avro(envelope(), ", strict: true"), "`strict` is for JSON"),
    "documents in Avro": (in_avro(envelope(), ", documents: true"), "`documents` is for JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_debezium_is_told_with_its_place(name):
    said, expected = BAD[name]

    with pytest.raises(ConfigError) as caught:
        pipeline(said)

    assert expected in str(caught.value)
    assert str(caught.value).startswith("f.yaml:")


def test_no_key_is_a_change():
    with pytest.raises(ConfigError, match="expected json, csv, avro, protobuf, string or raw"):
        pipeline(ROW, ROW)

    assert complaints(text(ROW, ROW)) != []


def test_a_frame_and_a_format_are_parts_of_the_judgement():
    json_of = '{ format: json, schema: "id BIGINT"%s }'
    registry = ", registry: 'http://localhost:8081'"
    said = [
        ROW, ROW.replace(" }", f"{registry} }}"), in_avro(envelope()), in_avro(envelope(), ""),
        json_of % "", json_of % registry,
    ]  # fmt: skip

    assert len({digest(each) for each in said}) == len(said)


def test_a_record_of_framed_json_is_framed_and_a_text_is_as_it_stands():
    said = text("{ format: json, schema: 'id BIGINT', registry: 'http://localhost:8081' }")
    tests = (
        "tests: [{name: t, given: {raw: [{value: {id: 3}}, {value: x}]}, "
        "expect: {clean: {count: 1}}}]\n"
    )

    made = validate(load(said + tests, "f.yaml", {}))

    given = [each.value for each in made.cases[0].given["raw"]]
    assert given == [b'\0\0\0\0\0{"id": 3}', b"x"]
    assert DEAD in said


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"op": "int"}, "no envelope of Debezium: `op` is no string"),
        ({"before": "string", "after": "string"}, "no envelope of Debezium: `before` is no record"),
        ({"deleted": "boolean"}, "field `deleted` has the name of a column that this format adds"),
        ({"after": ["null", {"type": "record", "name": "Other", "fields": []}]},
         "no envelope of Debezium: `before` and `after` are not of one type"),
    ],
)  # fmt: skip
def test_another_schema_than_an_envelopes_is_refused_with_what_it_lacks(changed, why):
    with pytest.raises(SchemaError) as caught:
        row_of(parse_record(envelope(**changed)))

    assert str(caught.value) == why


def test_the_row_is_the_record_of_both_states_and_the_source_has_its_own_fields():
    record = parse_record(envelope())

    assert [field.name for field in row_of(record).fields] == ["id", "name"]
    assert source_names(record) == ("lsn",)
    without = parse_record('{"type": "record", "name": "R", "fields": []}')
    assert source_names(without) == ()


def test_columns_of_json_are_there_alone_and_below_payload():
    assert wide_of("a INT") == "payload STRUCT<a INT>, a INT"
    assert with_position("a INT") == "a INT, `position` STRING"
    assert {"connector", "schema", "row", "lsn"} <= {*SOURCE_NAMES}
