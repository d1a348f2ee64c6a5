"""Values as programs send them: byte order marks, numbers beyond 64 bits, keys given twice."""

from __future__ import annotations

import base64
import json

import pytest

from josefine_arrow.formats.avro.schema import parse_record
from josefine_arrow.formats.avro.writer import encoded
from pipelines.base.errors import ConfigError
from pipelines.config.validate import read_pipeline
from pipelines.formats.decode import bad_rows
from pipelines.transforms import dataframes
from pipelines.transforms.decoders import reading_of
from tests.unit.josefine_arrow.formats.debezium.test_envelope import envelope

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


LONGEST = "9" * 38
NUMBERS = ["18446744073709551615", "-9223372036854775809", LONGEST, f"-{LONGEST}", f"{LONGEST}9"]


@pytest.mark.parametrize("strict", ["false", "true"])
def test_json_integers_beyond_64_bits_are_exact_in_a_decimal_and_in_a_text(decoded, strict):
    values = [f'{{"d": {n}, "t": {n}}}'.encode() for n in NUMBERS]
    schema = f'format: json, strict: {strict}, schema: "d DECIMAL(38,0), t STRING"'

    good, bad = decoded(schema, values, "concat(cast(value.d as string), ' ', value.t)")

    assert good == {offset: f"{n} {n}" for offset, n in enumerate(NUMBERS[:4])}
    assert list(bad) == [4]
    assert bad[4].startswith("does not fit the schema: d DECIMAL(38,0)")


def test_a_json_integer_beyond_its_column_is_bad(decoded):
    values = [b'{"n": 9223372036854775807}', b'{"n": 9223372036854775808}']

    good, bad = decoded('format: json, schema: "n BIGINT"', values)

    assert good == {0: '{"n":9223372036854775807}'}
    assert bad == {1: "does not fit the schema: n BIGINT"}


def test_mysqls_unsigned_numbers_are_exact_in_avro_and_in_json(decoded):
    """As Debezium sends BIGINT UNSIGNED with `bigint.unsigned.handling.mode: precise`."""
    unsigned = [0, 2**63, 2**64 - 1]
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 0}
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": kind}]}
    wide = envelope(before=["null", row])
    written = [{"after": {"id": n}, "source": {}, "op": "c"} for n in unsigned]
    avro = [encoded(parse_record(wide), each) for each in written]
    in_json = [n.to_bytes(9, "big").lstrip(b"\0") or b"\0" for n in unsigned]
    in_json = [
        json.dumps({"after": {"id": base64.b64encode(n).decode()}, "op": "c"}).encode()
        for n in in_json
    ]

    of_avro, _ = decoded(f"format: debezium, schema: '{wide}'", avro, "string(value.row.id)")
    of_json, _ = decoded(
        'format: debezium, schema: "id STRING"', in_json,
        "string(cast(conv(hex(unbase64(value.row.id)), 16, 10) as decimal(20,0)))",
    )  # fmt: skip

    assert of_avro == of_json == {offset: str(n) for offset, n in enumerate(unsigned)}


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


@pytest.mark.parametrize(
    ("decode", "told"),
    [
        ('format: json, schema: "i INT, m MAP<INT, STRING>"', "m MAP<INT,STRING>"),
        ('format: json, schema: "s STRUCT<a: ARRAY<TIME>>"', "s.a ARRAY<TIME(6)>"),
        ('format: json, schema: "i INTERVAL DAY TO SECOND"', "i INTERVAL DAY TO SECOND"),
        ('format: json, schema: "c CHAR(5)"', "c CHAR(5)"),
        ('format: csv, schema: "v VARIANT"', "v VARIANT"),
        ('format: debezium, schema: "t TIME"', "t TIME(6)"),
    ],
)
def test_a_type_that_no_value_is_decoded_into_is_refused_by_its_column(decoded, decode, told):
    with pytest.raises(ConfigError) as caught:
        decoded(decode, [b"{}"])

    assert str(caught.value).endswith(
        f"decode.value.schema: {told} cannot be decoded from a value: declare another type"
    )


def test_a_collation_is_kept(decoded):
    schema = 'format: json, schema: "c STRING COLLATE UTF8_LCASE"'

    good, _ = decoded(schema, [b'{"c": "A"}'], "value.c = 'a'")

    assert good == {0: True}
