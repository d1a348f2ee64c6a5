"""A filter finds the same rows in a table's files as in a log, whose rows are in memory."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from josefine_lake.query.dataset import dataset_of
from tests.unit.josefine_lake.query.world import ask, json_topic, write

VALUES: dict[str, tuple[str, list[Any]]] = {
    "i": ("TINYINT", [1, None, -128, 127]),
    "s": ("STRING", ["a", "", None, "é", "z" * 100]),
    "a": ("DECIMAL(20,3)", ["1.500", None, "-0.001", "99999999999999999.999"]),
    "t": ("TIMESTAMP", ["2020-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", None]),
    "n": ("TIMESTAMP_NTZ", [None, "2020-01-01T00:00:00"]),
    "e": ("DATE", ["2020-01-01", "0001-01-01", None, "9999-12-31"]),
    "b": ("BOOLEAN", [True, None, False]),
    "d": ("DOUBLE", [1.5, -0.0, None, 0.0, -2.5]),
    "st": ("STRUCT<x: INT>", [{"x": 1}, None, {"x": None}]),
    "l": ("ARRAY<INT>", [[1], [], None, [None]]),
    "bin": ("BINARY", ["AA==", None, ""]),
}
FILTERS = [
    "i = 1", "i is null", "i < 0", "i >= 127", "i in (1, 127)", "i is distinct from 1", "not i > 0",
    "s = 'a'", "s = ''", "s is null", "s like 'z%'", "s > 'b'", "s between '' and 'a'",
    "a = 1.5", "a is null", "a >= 99999999999999999.999", "a < 0",
    "t = '2020-01-01 00:00:00+00'", "t < '1970-01-01'", "t is null", "t is not null",
    "n = '2020-01-01'", "n is null", "e = '2020-01-01'", "e < '0002-01-01'", "e > '2020-01-01'",
    "e is null", "b", "not b", "b is null", "d = 0", "d > 1", "d is null",
    "st is null", "st.x = 1", "st.x is null", "l = [1]", "l is null", r"bin = '\x00'",
    "bin is null", "_offset > 20", "_topic = 'orders'", "_partition = 0", "_time > '1960-01-01'",
    "i = 1 and a > 0 or t is null", "(i, s) in ((1, 'a'), (127, ''))",
]  # fmt: skip


def test_each_filter_finds_the_rows_of_the_log_in_the_table_too(tmp_path: Path) -> None:
    schema = ", ".join(f"{name} {kind}" for name, (kind, _) in VALUES.items())
    topic = json_topic(tmp_path, partitions=1, schema=schema)
    cycles = {name: itertools.cycle(each) for name, (_, each) in VALUES.items()}
    for _ in range(40):
        value = {name: next(each) for name, each in cycles.items()}
        topic.send(0, json.dumps(value).encode())
    select = "select " + ", ".join(
        f"list(_offset order by _offset) filter ({each})" for each in FILTERS
    )
    one_by_one = [f"select _offset from orders where {each} order by 1" for each in FILTERS]

    (in_log,), _ = ask(f"{select} from orders", topic)
    write(topic)
    alone = [[row[0] for row in ask(each, topic, tail=False)[0]] for each in one_by_one]

    assert len(in_log) == len(FILTERS)
    assert dict(zip(FILTERS, alone, strict=True)) == {
        each: found or [] for each, found in zip(FILTERS, in_log, strict=True)
    }
    assert sum(map(bool, alone)) > len(FILTERS) * 0.9, "filters that find nothing show nothing"


@pytest.mark.parametrize("by", [[], ["country"]])
def test_files_have_bounds_of_integers_alone_and_their_partitions_values(
    tmp_path: Path, by: list[str]
) -> None:
    rows = pa.table(
        {"id": pa.array([1, None, 3], pa.int64()), "x": [0.5, None, 1.0],
         "country": ["a b%", None, "c"]}
    )  # fmt: skip
    write_deltalake(str(tmp_path), rows, partition_by=by)
    delta = DeltaTable(str(tmp_path))
    schema = pa.schema(delta.schema().to_arrow())

    found = dataset_of(delta, SubTreeFileSystem(str(tmp_path), LocalFileSystem()), schema)

    assert found.to_table().sort_by("id").to_pylist() == rows.sort_by("id").to_pylist()
    said = " ".join(str(each.partition_expression) for each in found.get_fragments())
    assert "id >= 1" in said
    assert "x " not in said
    assert ("country" in said) == bool(by)
