"""Texts and lines of CSV, with the reason for each bad value."""

from __future__ import annotations

import pyarrow as pa
import pytest

from josefine_arrow.formats.json.options import JsonOptions
from pipelines.formats.text import CsvValues, TextValues
from tests.unit.pipelines.tiny_spark import Frame

types = pytest.importorskip("pyspark.sql.types")
pytestmark = pytest.mark.usefixtures("tiny_spark")
SCHEMA = types.StructType().add("id", "integer").add("name", "string")


@pytest.mark.parametrize(
    ("data", "text", "is_good"),
    [("é".encode(), "é", True), (b"", "", True), (b"a\xff", "a�", False), (None, None, None)],
)
def test_a_text_is_good_if_its_bytes_are_utf8(data, text, is_good):
    values = TextValues()
    column = Frame([{"value": data}])["value"]
    row = {"value": data}
    parsed = values.parse(column)

    assert values.result(parsed).value(row) == text
    assert values.is_good(column, parsed).value(row) is is_good
    assert values.reason(column, parsed).value(row) == "not UTF-8 text"


def test_a_line_is_split_at_the_separator_of_the_file():
    made = CsvValues(SCHEMA, separator=";", options=JsonOptions())

    values, reasons = made.columns_decoder()()(pa.array([b"1;a,b", b"1,a", None]))

    assert values.to_pylist()[0] == {"id": 1, "name": "a,b"}
    assert [reason is None for reason in reasons.to_pylist()] == [True, False, True]


def test_two_sinks_with_one_schema_and_other_separators_have_decoders_of_their_own():
    one = CsvValues(SCHEMA, separator=";", options=JsonOptions()).columns_decoder()
    other = CsvValues(SCHEMA, separator="|", options=JsonOptions()).columns_decoder()

    assert one()(pa.array([b"1|a"]))[1].to_pylist() != [None]
    assert other()(pa.array([b"1|a"]))[0].to_pylist() == [{"id": 1, "name": "a"}]
