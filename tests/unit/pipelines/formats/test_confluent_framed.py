"""Framed values: the columns of Spark report of a frame what the decoder in Python does."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from josefine_arrow.formats.confluent.framing import FramingError, framed, split
from pipelines.formats.confluent_framed import FramedValues, behind_frame
from pipelines.formats.text import TextValues
from tests.unit.pipelines.tiny_spark import col

pytest.importorskip("pyspark")
pytestmark = pytest.mark.usefixtures("tiny_spark")
DATA = col("value")


def why_misframed(data: bytes) -> str | None:
    try:
        split(data)
    except FramingError as error:
        return str(error)
    return None


def judged(data: bytes | None) -> tuple[bool | None, str]:
    values, row = FramedValues(TextValues()), {"value": data}
    parsed = values.parse(DATA)
    return values.is_good(DATA, parsed).value(row), values.reason(DATA, parsed).value(row)


@example(b"")
@example(b"\x00abc")
@example(b"\x07abcdef")
@given(st.binary(max_size=8))
def test_a_frame_is_refused_with_the_decoders_reason(data):
    why = why_misframed(data)

    if why is None:
        assert behind_frame(DATA).value({"value": data}) == data[5:]
    else:
        assert judged(data) == (False, why)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=6))
def test_after_the_frame_the_inner_format_decides(schema_id, data):
    values, row = FramedValues(TextValues()), {"value": framed(schema_id, data)}
    parsed = values.parse(DATA)

    assert judged(row["value"])[0] is (data.decode(errors="ignore").encode() == data)
    assert values.result(parsed).value(row) == data.decode(errors="replace")
    assert judged(row["value"])[1] == "not UTF-8 text"
