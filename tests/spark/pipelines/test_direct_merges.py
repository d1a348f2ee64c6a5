"""Tables whose rows Spark and direct merges change in turn."""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.model.direct_merge import Fold, why_not_folded
from pipelines.sinks.commits import Link
from pipelines.sinks.direct_merge import merge
from pipelines.sinks.direct_table import DirectTable

KEYS = {
    "k": (pa.string(), "string", ["a", None, "\U0001f600" * 40]),
    "small": (pa.int8(), "byte", [-128, None, 5]),
    "at": (
        pa.timestamp("us", "UTC"), "timestamp",
        [datetime(1600, 1, 1, 0, 0, 0, 1, UTC), None, datetime(2026, 5, 1, 1, 2, 3, 999_999, UTC)],
    ),
    "day": (pa.date32(), "date", [date(1001, 1, 1), None, date(9999, 12, 30)]),
    "is": (pa.bool_(), "boolean", [True, None, False]),
}  # fmt: skip
FOLD = Fold(keys=tuple(KEYS), functions={"n": "count", "most": "max"})
SCHEMA = pa.schema([*((name, each[0]) for name, each in KEYS.items()), ("n", pa.int64()),
                    ("most", pa.string())])  # fmt: skip
FIELDS = [
    {"name": name, "type": kind, "nullable": True, "metadata": {}}
    for name, kind in [*((name, each[1]) for name, each in KEYS.items()),
                       ("n", "long"), ("most", "string")]
]  # fmt: skip


def test_spark_and_a_direct_merge_find_each_others_rows(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    keys = [{name: each[-1][at] for name, each in KEYS.items()} for at in range(3)]
    rows = pa.Table.from_pylist([{**each, "n": 1, "most": "m"} for each in keys], SCHEMA)
    table = DirectTable(path, FIELDS, {}, partial(why_not_folded, FOLD))
    table.check(-1)
    table.create()

    def merged(version: int) -> None:
        how = partial(merge, rows, FOLD, FIELDS, path)
        table.merge(how, version, Link(pipeline="p", sink="s", run="r"), version + 1, "{}")

    merged(0)
    spark.sql(f"UPDATE delta.`{path}` SET n = n + 10")  # its files have INT96
    merged(2)
    found = spark.read.format("delta").load(path)

    assert [each["n"] for each in found.collect()] == [12] * len(keys)
    for name, (*_, values) in KEYS.items():
        # By the bounds of the file.
        assert found.where(found[name].eqNullSafe(values[-1])).count() == 1, name
