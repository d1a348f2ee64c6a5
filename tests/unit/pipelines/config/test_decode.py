"""What `decode` says: formats, keys, what becomes of bad records."""

from __future__ import annotations

import pytest

from pipelines.base.errors import ConfigError
from pipelines.config.decode import decodes_of, schema_of, twice
from pipelines.config.json_schema import json_schema
from pipelines.config.loader import load
from pipelines.config.record_types import SKIP
from pipelines.config.validate import validate
from pipelines.exactly_once.decode_fingerprint import judgement
from pipelines.lint.lint import columns_of_source
from pipelines.model.pipeline import Format, OnError
from pipelines.model.plan import compile_plan
from tests.unit.pipelines.config.bad_sinks import VALUE
from tests.unit.pipelines.config.sections import said as problems_of
from tests.unit.pipelines.config.sections import section
from tests.unit.pipelines.config.test_json_schema import complaints
from tests.unit.pipelines.config.test_validate import GOOD

DEAD = "dead_letter: { type: delta, path: /dead }\n"


def text(value, key=None):
    said = GOOD.replace(f"value: {VALUE}", f"value: {value}" if value else "")
    return (
        said.replace("    decode:\n", f"    decode:\n      key: {key}\n") if key else said
    ) + DEAD


def pipeline(value, key=None):
    return validate(load(text(value, key), "f.yaml", {}))


def decoded(value, key=None):
    source = pipeline(value, key).sources["raw"]
    return source.decode, source.decode_key


CSV = '{ format: csv, schema: "id INT, at DATE", separator: ";", on_error: dead_letter }'


@pytest.mark.parametrize(
    ("value", "key"),
    [(CSV, None), ("{ format: string, tombstones: true }", None), ("{ format: raw }", None),
     (CSV, "{ format: string }"), (None, '{ format: json, schema: "id INT", strict: true }'),
     (VALUE.replace("fail", "null"), None)],
)  # fmt: skip
def test_a_good_decode_is_good_by_the_schema_of_editors_too(value, key):
    decoded(value, key)

    assert complaints(text(value, key)) == []


def test_each_word_of_a_format_is_read():
    how, key = decoded(CSV, "{ format: string, on_error: null }")

    assert how is not None
    assert (how.format, how.separator, how.on_error) == (Format.CSV, ";", OnError.DEAD_LETTER)
    assert how.schema.text == "id INT, at DATE"
    assert key is not None
    assert (key.format, key.on_error) == (Format.STRING, OnError.NULL)


def test_a_key_takes_the_values_on_error_and_raw_bytes_need_no_decoding():
    assert decoded(CSV, "{ format: string }")[1].on_error is OnError.DEAD_LETTER
    assert decoded("{ format: raw }") == (None, None)


def test_lint_knows_the_columns_of_both_sides():
    source = pipeline(CSV, '{ format: json, schema: "id INT, zone STRING" }').sources["raw"]

    names = columns_of_source(source).names

    assert set(names["value"].names) == {"id", "at"}
    assert set(names["key"].names) == {"id", "zone"}


AVRO = """'{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'"""


def test_columns_of_avro_are_those_of_its_schema_and_a_registry_is_an_address():
    said = f"{{ format: avro, schema: {AVRO}, registry: 'http://localhost:8081' }}"

    how = decoded(said)[0]

    assert (how.schema.text, how.framed) == ("`id` BIGINT", True)
    assert how.registry == "http://localhost:8081"
    assert "8081" not in repr(how)  # it may have a password
    assert set(columns_of_source(pipeline(said).sources["raw"]).names["value"].names) == {"id"}
    assert complaints(text(said)) == []


def test_a_record_of_a_test_is_avro_by_the_sources_schema():
    said = text(f"{{ format: avro, schema: {AVRO}, registry: 'http://localhost:8081' }}")
    tests = "tests: [{name: t, given: {raw: [{value: {id: 3}}]}, expect: {clean: {count: 1}}}]\n"

    made = validate(load(said + tests, "f.yaml", {}))

    assert made.cases[0].given["raw"][0].value == b"\0\0\0\0\0\x06"
    with pytest.raises(ConfigError, match=r"given.raw\[0\].value: field `id`: 'x' is no long"):
        validate(load(said + tests.replace("id: 3", "id: x"), "f.yaml", {}))


BAD = {
    "a schema of avro that is none": (
        "{ format: avro, schema: '{}' }",
        None,
        "sources.raw.decode.value.schema: not a valid Avro schema: expected a type, found {}",
    ),
    "fields of avro that differ by large letters": (
        """{ format: avro, schema: '{"type": "record", "name": "r", "fields": ["""
        """{"name": "id", "type": "long"}, {"name": "Id", "type": "long"}]}' }""",
        None,
        "sources.raw.decode.value.schema: `id` and `Id` are one column for Spark",
    ),
    "a file of avro that is not there": (
        "{ format: avro, schema: none.avsc }",
        None,
        "sources.raw.decode.value.schema: none.avsc: No such file or directory",
    ),
    "a registry that is no address": (
        f"{{ format: avro, schema: {AVRO}, registry: localhost }}",
        None,
        "sources.raw.decode.value.registry: expected the address of a schema registry",
    ),
    "a schema without fields": (
        """{ format: avro, schema: '{"type": "record", "name": "r", "fields": []}' }""",
        None,
        "not a valid Avro schema: record `r` has no field, so it is no column",
    ),
    "a registry whose password is not to be told": (
        f"{{ format: avro, schema: {AVRO}, registry: 'http://me:hush@' }}",
        None,
        "sources.raw.decode.value.registry: expected the address of a schema registry, such as",
    ),
    "a registry of csv": (
        '{ format: csv, schema: "id INT", registry: "http://localhost:8081" }',
        None,
        "sources.raw.decode.value.registry: `registry` is for format json or avro",
    ),
    "a schema that is missing": (
        "{ format: csv }",
        None,
        "sources.raw.decode.value: `schema` is missing; expected columns as in SQL",
    ),
    "a word of another format": (
        '{ format: csv, schema: "id INT", strict: true }',
        None,
        "sources.raw.decode.value.strict: `strict` is for format json or debezium; this decode "
        "value's format is csv",
    ),
    "raw that has errors": (
        "{ format: raw, on_error: fail }",
        None,
        "sources.raw.decode.value.on_error: `on_error` is for format json or csv or avro or "
        "protobuf or debezium or string",
    ),
    "a field with fields": (
        '{ format: csv, schema: "id INT, tags ARRAY<INT>" }',
        None,
        "sources.raw.decode.value.schema: a field of csv is no ARRAY",
    ),
    "a separator of two": (
        '{ format: csv, schema: "id INT", separator: "::" }',
        None,
        "sources.raw.decode.value.separator: expected one character, not a quote; found `::`",
    ),
    "nothing to decode": (None, None, "sources.raw.decode: expected a mapping with value, key"),
    "a key that stops and a value that does not": (
        CSV,
        "{ format: string, on_error: fail }",
        "sources.raw.decode.key.on_error: the value's is dead_letter: expected dead_letter or null",
    ),
    "tombstones of keys": (
        CSV,
        "{ format: string, tombstones: true }",
        "sources.raw.decode.key.tombstones: unknown key `tombstones`",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_decode_is_told_with_its_place(name):
    value, key, expected = BAD[name]

    with pytest.raises(ConfigError) as caught:
        pipeline(value, key)

    assert f": {expected}" in str(caught.value)
    assert str(caught.value).startswith("f.yaml:")


def test_words_of_another_format_are_bad_by_the_schema_of_editors():
    assert complaints(text('{ format: csv, schema: "id INT", strict: true }')) != []
    assert complaints(text("{ format: csv }")) != []
    assert json_schema()["definitions"]["decode key"]["required"] == ["format"]


def test_dead_letters_of_a_key_need_their_table():
    file = text(None, "{ format: string, on_error: dead_letter }").replace(DEAD, "")

    with pytest.raises(ConfigError, match="`dead_letter`, where this source sends bad records"):
        validate(load(file, "f.yaml", {}))


def digest(value, key=None):
    made = pipeline(value, key)
    return judgement(compile_plan(made).sources["raw"])


def test_the_judgement_of_json_is_that_of_the_commits_that_are_there():
    """Else no letter that a commit of today left out could be replayed by itself tomorrow."""
    assert digest(VALUE) == "6fcca3cdef7d39ee"


def test_all_that_makes_other_records_good_ones_changes_the_judgement():
    said = [
        digest(VALUE), digest(VALUE.replace("fail", "null")), digest(VALUE.replace("json", "csv")),
        digest(CSV), digest(CSV.replace(";", ",")), digest(VALUE, "{ format: string }"),
        digest(f"{{ format: avro, schema: {AVRO} }}"),
        digest(f"{{ format: avro, schema: {AVRO}, registry: 'http://localhost:8081' }}"),
        digest("{ format: string }"), digest("{ format: raw }"),
        digest(VALUE, "{ format: string, on_error: null }"),
    ]  # fmt: skip

    assert len(set(said)) == len(said)
    assert digest(VALUE) == digest(VALUE.replace("fail", "dead_letter"))


UNION = (
    '\'[{"type": "record", "name": "com.shop.Order", "fields": [{"name": "id", '
    '"type": "int"}]}, {"type": "record", "name": "Refund", "fields": [{"name": '
    '"of", "type": "int"}]}]\''
)


def test_a_source_names_the_type_that_it_reads_of_several():
    value = f"{{ format: avro, schema: {UNION}, type: com.shop.Order, other_types: {SKIP} }}"
    how, _ = decoded(value)

    assert how is not None
    assert (how.record_type, how.skips_other_types) == ("com.shop.Order", True)
    assert how.schema.text == "`id` INT"
    assert complaints(text(value)) == []


def test_json_in_a_frame_names_the_title_of_its_schema():
    value = "{ format: json, schema: 'id INT', registry: 'http://r', type: Order }"
    how, _ = decoded(value.replace(" }", f", other_types: {SKIP} }}"))

    assert how is not None
    assert (how.record_type, how.skips_other_types) == ("Order", True)
    assert complaints(text(value)) == []
    assert digest(value) != digest(value.replace(", type: Order", ""))


def test_other_types_alone_read_the_record_of_the_schema():
    how, _ = decoded(f"{{ format: avro, schema: {AVRO}, registry: 'http://r', other_types: skip }}")

    assert how is not None
    assert (how.record_type, how.skips_other_types) == ("r", True)


OF_TYPES = [
    (f"{{ format: avro, schema: {UNION} }}",
     "not a valid Avro schema: expected a record, found union"),
    (f"{{ format: avro, schema: {UNION}, type: Order }}",
     "not a valid Avro schema: it declares no record `Order`; its records: Refund, com.shop.Order"),
    (f"{{ format: avro, schema: {AVRO}, other_types: dead_letter }}",
     "`other_types` needs a `registry`, or a union of records as `schema`: without them, nothing "
     "in a record names its type"),
    (f"{{ format: avro, schema: {AVRO}, type: r, other_types: drop }}",
     "expected dead_letter or skip"),
    ("{ format: json, schema: 'id INT', other_types: skip }",
     "`other_types` needs a `registry`, whose frame names the schema"),
    ("{ format: json, schema: 'id INT', type: Order }",
     "`type` needs a `registry`, whose frame names the schema"),
    ("{ format: json, schema: 'id INT', registry: 'http://r', other_types: skip }",
     "`other_types` needs a `type`: the columns of JSON have no name"),
    ("{ format: json, schema: 'id INT', registry: 'http://r', type: Order, explode: true }",
     "an array is not of one `type`: leave `explode` or `type` out"),
    ("{ format: csv, schema: 'id INT', type: Order }", "`type`"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "told"), OF_TYPES)
def test_a_type_that_no_record_can_have_is_refused(value, told):
    with pytest.raises(ConfigError) as caught:
        pipeline(value)

    assert told in str(caught.value)


def test_another_type_and_another_way_with_the_rest_are_another_judgement():
    value = f"{{ format: avro, schema: {UNION}, type: com.shop.Order }}"
    said = [digest(value), digest(value.replace("com.shop.Order", "Refund")),
            digest(value.replace(" }", ", other_types: skip }"))]  # fmt: skip

    assert len(set(said)) == 3
    assert digest(value) == digest(value.replace(" }", ", other_types: dead_letter }"))


def test_explode_is_of_json_values():
    how, _ = decoded("{ format: json, schema: 'id INT', explode: true }")

    assert how is not None
    assert how.explodes
    assert digest("{ format: json, schema: 'id INT', explode: true }") != digest(
        "{ format: json, schema: 'id INT' }"
    )
    with pytest.raises(ConfigError, match="explode"):
        pipeline("{ format: csv, schema: 'id INT', explode: true }")


def test_a_check_sends_no_dead_letters_of_exploded_records():
    file = text("{ format: json, schema: 'id INT', explode: true }")
    file += "checks: { sound: { on: raw, expr: value.id > 0, action: dead_letter } }\n"

    with pytest.raises(ConfigError, match=r"each record of `raw` makes several rows \(`explode`\)"):
        validate(load(file, "f.yaml", {}))


def test_a_key_in_avro_has_no_type_of_several():
    _, key = decoded(VALUE, f"{{ format: avro, schema: {AVRO} }}")

    assert key is not None
    assert (key.record_type, key.skips_other_types) == ("", False)
    with pytest.raises(ConfigError, match="other_types"):
        pipeline(VALUE, f"{{ format: avro, schema: {AVRO}, other_types: skip }}")


def test_columns_are_one_line_of_sql_wherever_they_are_written(tmp_path):
    (tmp_path / "c.ddl").write_text("id INT,\n  at   DATE\n")
    reader = section(f"format: json\nschema: {tmp_path}/c.ddl", "decode value")

    assert schema_of(reader).text == "id INT, at DATE"
    assert schema_of(section("schema: ' id  INT '", "decode value")).text == "id INT"


def test_a_file_of_columns_that_is_not_there_or_not_text_is_reported_with_its_path(tmp_path):
    (tmp_path / "b.ddl").write_bytes(b"\xff")
    for name, why in (("a.ddl", "No such file or directory"), ("b.ddl", "not UTF-8 text")):
        reader = section(f"schema: {tmp_path}/{name}", "decode value")

        assert schema_of(reader).text == ""
        assert problems_of(reader) == [f"schema: {tmp_path}/{name}: {why}"]


def test_two_columns_that_differ_in_case_are_one_for_spark():
    assert twice("a", "a") == "column `a` is listed twice"
    assert twice("a", "A") == "`a` and `A` are one column for Spark, which ignores letter case"


def test_a_record_is_not_both_a_dead_letter_and_a_reason_to_stop():
    words = "decode:\n  value: { format: string, on_error: dead_letter }\n  key: { format: string, "
    fails = section(words + "on_error: fail }", "source")
    nulls = section(words + "on_error: null }", "source")
    value, key = decodes_of(section(words + "}", "source"))

    decodes_of(fails)
    decodes_of(nulls)

    assert problems_of(fails) == [
        "decode.key.on_error: the value's is dead_letter: expected dead_letter or null for the key"
    ]
    assert problems_of(nulls) == []
    assert value is not None
    assert key is not None
    assert key.on_error is value.on_error
