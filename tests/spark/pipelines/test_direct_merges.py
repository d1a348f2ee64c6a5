"""Tables whose rows Spark and direct merges change in turn."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.model.direct_merge import MERGED, Fold, why_not_folded
from pipelines.sinks.commits import Link
from pipelines.sinks.direct_merge import merge, rows_of
from pipelines.sinks.direct_table import DirectTable
from pipelines.sinks.staging import files_in, write_files
from pipelines.spark.files import HadoopFiles

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


MICROS = pa.timestamp("us", "UTC")
TIMES = [
    None,
    datetime(1600, 1, 1, 0, 0, 0, 1, UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime(9999, 12, 29, tzinfo=UTC),
    datetime(1, 1, 3, tzinfo=UTC),
]
TEXTS = [None, "", "a", "a\0", "\uffff", "\U0001f600", "\u00e9", "e\u0301", "Z" * 5_000]
OF_KEYS: dict[str, tuple[Any, ...]] = {
    "k": (pa.string(), "string", TEXTS),
    "at": (MICROS, "timestamp", TIMES[:3]),
    "is": (pa.bool_(), "boolean", [None, True, False]),
}
OF_VALUES: dict[str, tuple[Any, ...]] = {
    "n": (pa.int64(), "long", [0, 1, 7], "count"),
    "total": (pa.int64(), "long", [None, 0, -1, 1 << 61, -(1 << 61)], "sum"),
    "low": (pa.string(), "string", TEXTS, "min"),
    "high": (MICROS, "timestamp", TIMES, "max"),
    "day": (pa.date32(), "date", [None, date(1, 1, 3), date(1582, 10, 10)], "min"),
    "most": (pa.int64(), "long", [None, 0, -1, (1 << 63) - 1], "max"),
    "tiny": (pa.int8(), "byte", [None, -128, 127], "min"),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_direct_merge_gives_the_rows_of_sparks(spark: Any, tmp_path: Path, seed: int) -> None:
    """Of the same batches, with nulls in keys and the ends of the ranges."""
    from delta.tables import DeltaTable

    rng, all_of = Random(seed), {**OF_KEYS, **OF_VALUES}
    fold = Fold(keys=tuple(OF_KEYS), functions={name: each[3] for name, each in OF_VALUES.items()})
    fields = [
        {"name": name, "type": each[1], "nullable": True, "metadata": {}}
        for name, each in all_of.items()
    ]
    schema = pa.schema([(name, each[0]) for name, each in all_of.items()])
    direct, sparks = str(tmp_path / "direct"), str(tmp_path / "sparks")
    table = DirectTable(direct, fields, {}, partial(why_not_folded, fold))
    for each in (table, DirectTable(sparks, fields, {}, partial(why_not_folded, fold))):
        each.check(-1)
        each.create()
    same = " AND ".join(f"t.{name} <=> s.{name}" for name in OF_KEYS)
    update = {name: MERGED[each[3]].format(c=name) for name, each in OF_VALUES.items()}

    for version in range(3):
        keys = {tuple(rng.choice(each[2]) for each in OF_KEYS.values()) for _ in range(25)}
        rows = [
            {**dict(zip(OF_KEYS, key, strict=True)),
             **{name: rng.choice(each[2]) for name, each in OF_VALUES.items()}}
            for key in keys
        ]  # fmt: skip
        pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / f"{version}.parquet")
        batch, folder = spark.read.parquet(str(tmp_path / f"{version}.parquet")), tmp_path / "files"
        merging: Any = DeltaTable.forPath(spark, sparks).alias("t").merge(batch.alias("s"), same)
        merging.whenMatchedUpdate(None, update).whenNotMatchedInsertAll().execute()
        write_files(batch, folder)
        how = partial(merge, rows_of(files_in(folder)), fold, fields, direct)
        table.merge(how, version, Link(pipeline="p", sink="s", run="r"), version + 1, "{}")

    found, wanted = (spark.read.format("delta").load(each).collect() for each in (direct, sparks))
    assert Counter(map(tuple, found)) == Counter(map(tuple, wanted))
    assert len(found) > 25


def test_hadoop_reads_a_checkpoint_of_delta_rs_after_sparks(spark: Any, tmp_path: Path) -> None:
    path, often = str(tmp_path / "t"), "tblproperties ('delta.checkpointInterval' = '2')"
    spark.sql(f"create table delta.`{path}` (id bigint) using delta {often}")
    for _ in range(2):
        spark.sql(f"insert into delta.`{path}` values (1)")

    def last() -> Any:
        text = HadoopFiles(spark).read_text(f"{path}/_delta_log/_last_checkpoint")
        found: Any = json.loads(text or "")
        return found["version"]

    assert last() == 2

    table = DirectTable(
        path, [{"name": "id", "type": "long", "nullable": True, "metadata": {}}], {}
    )
    for version in (2, 3):
        table.check(version)
        table.add([], version, Link(pipeline="p", sink="s", run="r"), version, "{}")

    assert last() == 3


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
