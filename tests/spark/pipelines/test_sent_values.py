"""Values as programs send them: byte order marks, numbers beyond 64 bits, keys given twice."""

from __future__ import annotations

import pytest

from pipelines.config.validate import read_pipeline
from pipelines.formats.decode import bad_rows
from pipelines.transforms import dataframes
from pipelines.transforms.decoders import reading_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FILE = """
version: 1
name: sent
spark: {{ checkpoint: /ck }}
sources:
  raw:
    type: josefine
    bootstrap: nowhere:1
    topics: [a]
    decode: {{ value: {{ {decode} }} }}
sinks: {{ raw: {{ type: delta, inputs: [raw], path: /t, mode: append }} }}
trigger: {{ available_now: true }}
"""


@pytest.fixture
def decoded(spark, tmp_path):
    def decoded(decode, values, sql="to_json(value)"):
        """({offset: the SQL's value}, {offset: reason})."""
        file = tmp_path / "f.yaml"
        file.write_text(FILE.format(decode=decode))
        source = read_pipeline(file, {}).sources["raw"]
        reading = reading_of(source)
        rows = [(None, value, "a", 0, offset, None, 0) for offset, value in enumerate(values)]
        given = spark.createDataFrame(rows, dataframes.empty_source(spark, source).schema)
        parsed = dataframes.parse(given.coalesce(1), reading)
        good = dataframes.good_rows(parsed, reading).selectExpr("offset", f"{sql} as found")
        bad = bad_rows(parsed, reading, source.name).select("offset", "reason")
        return dict(map(tuple, good.collect())), dict(map(tuple, bad.collect()))

    return decoded


MARK = b"\xef\xbb\xbf"
WIDE = "text: it begins with that byte order mark, expected UTF-8"


def test_a_byte_order_mark_before_json_is_removed_and_another_encoding_is_named(decoded):
    text = '{"n": 1}'
    values = [MARK + text.encode(), text.encode(), text.encode("utf-16"), text.encode("utf-32"),
              MARK + MARK + text.encode(), MARK, MARK + b'{"n": "x"}']  # fmt: skip

    good, bad = decoded('format: json, schema: "n INT", on_error: fail', values)

    assert good == {0: '{"n":1}', 1: '{"n":1}'}
    assert bad == {
        2: f"UTF-16 {WIDE}", 3: f"UTF-32 {WIDE}", 4: "not JSON", 5: "not JSON",
        6: "does not fit the schema: n INT",
    }  # fmt: skip


def test_a_byte_order_mark_before_csv_is_removed(decoded):
    values = [MARK + b'"a ""b""",2\r\n', "a,2".encode("utf-16"), MARK + b"a"]

    good, bad = decoded('format: csv, schema: "s STRING, n INT"', values)

    assert good == {0: '{"s":"a \\"b\\"","n":2}'}
    assert bad == {1: f"UTF-16 {WIDE}", 2: "not a line of 2 fields"}


def test_a_key_given_twice_in_a_variant_is_a_bad_record_and_the_others_are_read(decoded):
    values = [
        b'{"v": {"a": 1}, "w": {"a": 1, "a": 2}}', b'{"v": {"a": {"b": 1, "b": 2}}}',
        b'{"v": {"a": 1, "a": 2}', MARK + b'{"v": [{"a": 1, "a": 2}], "n": "x"}', b'{"n": "x"}',
        b'{"n": 1, "n": 2}',
    ]  # fmt: skip

    good, bad = decoded('format: json, schema: "v VARIANT, n INT"', values, "to_json(value.v)")

    assert good == {0: '{"a":1}'}
    assert bad == {
        1: "does not fit the schema: key v.a.b twice",
        2: "not JSON",
        3: "does not fit the schema: key v[].a twice",
        4: "does not fit the schema: n INT",
        5: "does not fit the schema: key n twice",
    }


def test_a_key_given_twice_in_a_variant_of_a_row_is_a_bad_change(decoded):
    values = [b'{"after": {"v": {"a": 1, "a": 2}}, "op": "c"}', b'{"after": {"v": 1}, "op": "c"}']

    good, bad = decoded('format: debezium, schema: "v VARIANT"', values, "to_json(value.row.v)")

    assert good == {1: "1"}
    assert bad == {0: "does not fit the schema: key after.v.a twice"}
