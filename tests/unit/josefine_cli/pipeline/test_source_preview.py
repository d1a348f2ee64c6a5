"""A source's rows and types without Spark, written as Spark writes them."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_arrow.schema.ddl_types import struct_of
from josefine_cli.pipeline.source_preview import as_spark_writes, preview_of_source, simple_name
from pipelines.config.loader import load
from pipelines.config.validate import validate
from tests.unit.pipelines.config.test_validate import GOOD


@pytest.mark.parametrize(
    ("ddl", "name"),
    [
        ("a INT, B STRING", "struct<a:int,B:string>"),
        ("a ARRAY<STRUCT<b: DECIMAL(6,2)>>", "struct<a:array<struct<b:decimal(6,2)>>>"),
        ("m MAP<STRING, TIMESTAMP>", "struct<m:map<string,timestamp>>"),
    ],
)
def test_a_type_has_the_name_of_sparks_simple_string(ddl: str, name: str) -> None:
    assert simple_name(struct_of(ddl)) == name


def test_times_have_six_decimals_at_any_depth_and_nulls_stay() -> None:
    kind = struct_of("a TIMESTAMP, n TIMESTAMP_NTZ, l ARRAY<TIMESTAMP>, s STRUCT<t: TIMESTAMP>")
    value: dict[str, Any] = {
        "a": "2026-01-01T00:00:00Z",
        "n": "2026-01-01T00:00:00.5",
        "l": [None, "2026-01-01T00:00:00.000001Z"],
        "s": None,
    }

    assert as_spark_writes(value, kind) == {
        "a": "2026-01-01T00:00:00.000000Z",
        "n": "2026-01-01T00:00:00.500000",
        "l": [None, "2026-01-01T00:00:00.000001Z"],
        "s": None,
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("transforms:", "checks:\n  c: { on: raw, expr: offset > 1, action: drop }\ntransforms:"),
        ("topics: [orders]", "topics: [orders]\n    isolation: read_committed"),
    ],
)
def test_only_spark_can_check_rows_and_leave_out_aborted_records(before: str, after: str) -> None:
    assert before in GOOD
    pipeline = validate(load(GOOD.replace(before, after), "f.yaml", {}))

    assert preview_of_source(pipeline, "raw", 1, 1) is None
    assert preview_of_source(pipeline, "clean", 1, 1) is None
