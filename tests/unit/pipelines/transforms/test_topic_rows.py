"""Records of a topic sink: which columns are key and value, and which cannot be."""

from __future__ import annotations

import json

import pytest

from pipelines.base.errors import ConfigError
from pipelines.transforms.topic_rows import topic_rows
from tests.unit.pipelines.config.bad_sinks import SINK
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.tiny_spark import Frame

types = pytest.importorskip("pyspark.sql.types")
pytestmark = pytest.mark.usefixtures("tiny_spark")
LONG, TEXT, BYTES = types.LongType(), types.StringType(), types.BinaryType()
PARTS = types.ArrayType(LONG)


def rows(key, row, **kinds):
    text = (
        f"  lake: {{ type: josefine, inputs: [clean], topic: out{f', key: {key}' if key else ''} }}"
    )
    sink = read(GOOD.replace(SINK, f"{text}\n"))[0].sinks["lake"]
    schema = types.StructType()
    for name, kind in kinds.items():
        schema.add(name, kind)
    return topic_rows(sink, sink.topic, Frame([row], schema.names, schema))


def test_a_record_without_a_column_value_is_an_object_of_all_columns_but_the_key():
    (record,) = rows("ID", {"id": 7, "n": 1, "s": None}, id=LONG, n=LONG, s=TEXT).rows

    assert record["key"] == "7"
    assert json.loads(record["value"]) == {"n": 1, "s": None}


@pytest.mark.parametrize(("kind", "value"), [(TEXT, "a"), (BYTES, b"a")])
def test_a_text_or_bytes_in_the_column_value_are_the_value(kind, value):
    found = rows(None, {"Value": value, "other": 1}, Value=kind, other=LONG)

    assert (found.columns, found.rows) == (["value"], [{"value": value}])


def test_parts_in_the_column_value_are_json():
    assert rows(None, {"value": [1]}, value=PARTS).rows == [{"value": "[1]"}]


def test_a_key_of_bytes_stays_as_it_is():
    assert rows("k", {"k": b"\xff", "n": 1}, k=BYTES, n=LONG).rows[0]["key"] == b"\xff"


@pytest.mark.parametrize(
    ("key", "kinds", "why"),
    [
        ("z", {"a": LONG, "b": LONG}, "sinks.lake.key: no column z in `clean`; it has: a, b"),
        ("a", {"a": PARTS, "b": LONG}, "sinks.lake.key: `a` is ARRAY<BIGINT>: expected one value, "
         "such as a number"),
        ("a", {"a": LONG}, "sinks.lake: `clean` has no column but the key: a record needs a value"),
        (None, {"value": LONG}, "sinks.lake: column value of `clean` is BIGINT: expected STRING, "
         "BINARY, or parts that become JSON"),
    ],
)  # fmt: skip
def test_columns_that_are_no_key_or_no_value_are_refused_at_their_place(key, kinds, why):
    with pytest.raises(ConfigError) as caught:
        rows(key, dict.fromkeys(kinds), **kinds)

    assert str(caught.value).startswith("f.yaml:14:")
    assert str(caught.value).endswith(why)


def changes(words, row, **kinds):
    """The record of one change, with these keywords of the sink."""
    text = f"  lake: {{ type: josefine, inputs: [clean], topic: out, mode: update, {words} }}\n"
    sink = read(GOOD.replace(SINK, text))[0].sinks["lake"]
    schema = types.StructType()
    for name, kind in kinds.items():
        schema.add(name, kind)
    return topic_rows(sink, sink.topic, Frame([row], schema.names, schema)).rows[0]


def test_a_key_of_several_columns_is_an_object_in_the_order_of_the_file():
    record = changes("key: [b, a]", {"a": 1, "b": None, "n": 2}, a=LONG, b=TEXT, n=LONG)

    assert record == {"key": '{"b": null, "a": 1}', "value": '{"n": 2}'}
    with pytest.raises(ConfigError, match=r"`b` is BINARY, which JSON has not: expected hex\(b\)"):
        changes("key: [b, a]", {"a": 1, "b": b"", "n": 2}, a=LONG, b=BYTES, n=LONG)
