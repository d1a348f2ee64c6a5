"""Dates beyond those of delta-rs are dead letters, wherever a row has them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from josefine_arrow.batches.columns import arrow_schema
from josefine_arrow.formats.avro.schema import parse
from josefine_arrow.formats.avro.writer import encoded
from josefine_lake.config.table_topic import Format, TableTopic
from josefine_lake.formats.dates import FIRST_DAY, LAST_DAY, TOO_FAR, too_far
from josefine_lake.formats.values import values_of
from josefine_lake.writer.columns import Columns


@pytest.mark.parametrize("day", [FIRST_DAY - 1, LAST_DAY + 1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("is_in", ["column", "struct", "list", "map"])
def test_a_date_that_is_too_far_away_is_found_in_its_row_alone(day: int, is_in: str) -> None:
    kind = {
        "column": pa.date32(),
        "struct": pa.struct([("d", pa.date32())]),
        "list": pa.list_(pa.date32()),
        "map": pa.map_(pa.string(), pa.date32()),
    }[is_in]
    row = pa.struct([("id", pa.int64()), ("x", kind)])

    def inside(value: int | None) -> object:
        return {"column": value, "struct": {"d": value}, "list": [5, value], "map": [("k", value)]}[
            is_in
        ]

    good = [None, *({"id": 1, "x": x} for x in (None, *map(inside, (FIRST_DAY, LAST_DAY, None))))]
    rows = pa.array([*good, {"id": 1, "x": inside(day)}, *good], row)

    assert too_far(rows).to_pylist() == [False] * 5 + [True] + [False] * 5
    assert too_far(rows.slice(6)) is None


def test_seconds_in_place_of_days_are_a_dead_letter() -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}}
    ]})  # fmt: skip
    table = TableTopic(topic="t", location="/t", format=Format.AVRO, schema=text)
    columns = Columns(table, values_of(table, {}), {})
    records = pa.RecordBatch.from_pylist(
        [
            {"value": encoded(parse(text), {"day": day}), "partition": 0, "offset": at}
            for at, day in enumerate([19_000, 1_700_000_000])
        ],
        schema=arrow_schema(include_headers=True),
    )

    rows, letters = columns.rows(records)

    assert rows.column("_offset").to_pylist() == [0]
    assert letters.column("offset").to_pylist() == [1]
    assert letters.column("reason").to_pylist() == [TOO_FAR]
