"""A key as the sinks compare it is the key as the table stores it: for every type and layout."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipelines.sinks.delta_tables import layout_of
from pipelines.sinks.stored_keys import as_stored, changes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TEXTS = ["", " ", "x", "x ", "x  ", "x   ", "xyz", "é", "𝄞 ", "a/b", "%", "a=b", "__HIVE__", None]
SHORT = ["", " ", "x", "x ", " x", "xyz", "   ", "é", "𝄞", None]
VALUES: dict[str, list[str]] = {
    "STRING": [f"'{each}'" if each is not None else "null" for each in TEXTS],
    "CHAR(3)": [f"'{each}'" if each is not None else "null" for each in SHORT],
    "VARCHAR(3)": [f"'{each}'" if each is not None else "null" for each in SHORT],
    "BOOLEAN": ["true", "false", "null"],
    "TINYINT": ["-128", "0", "127", "null"],
    "BIGINT": ["-9223372036854775808", "0", "9223372036854775807", "null"],
    "DECIMAL(38,10)": ["0", "1.10", "-9999999999999999999999999999.0000000001", "null"],
    "FLOAT": ["0.0", "-0.0", "'NaN'", "'Infinity'", "1e-45", "3.4028235e38", "null"],
    "DOUBLE": ["0.0", "-0.0", "'NaN'", "'-Infinity'", "4.9e-324", "0.1", "null"],
    "DATE": ["'0001-01-01'", "'1582-10-15'", "'2024-02-29'", "'9999-12-31'", "null"],
    "TIMESTAMP": ["'1900-01-02T00:00:00.000001Z'", "'2024-10-27T00:30:00.123456Z'", "null"],
    "TIMESTAMP_NTZ": ["'1900-01-01 00:00:00.1'", "'2024-10-27 02:30:00.123456'", "null"],
}
LAYOUTS = {
    "plain": "using delta",
    "partitioned": "using delta partitioned by (k)",
    "mapped": "using delta partitioned by (k) tblproperties ('delta.columnMapping.mode' = 'name')",
}
_numbers = itertools.count()


def stored_and_compared(
    spark: SparkSession, folder: Path, kind: str, layout: str, values: list[str]
) -> list[Any]:
    """Rows of (number, the key in the table, the key that a sink compares)."""
    path = str(folder / f"table-{next(_numbers)}")
    spark.sql(f"create table delta.`{path}` (n INT, k {kind}) {LAYOUTS[layout]}")
    sent = kind if "CHAR" not in kind else "STRING"
    rows = spark.sql(
        " union all ".join(
            f"select {n} as n, cast({value} as {sent}) as k" for n, value in enumerate(values)
        )
    )
    rows.write.format("delta").mode("append").save(path)
    fields, partitioned_by = layout_of(spark, path)
    compared = as_stored(rows, changes(fields, partitioned_by, ["K"])).withColumnRenamed("k", "c")
    table = spark.read.format("delta").load(path)
    found = table.join(compared, "n").select("n", "k", "c", F.expr("k <=> c").alias("is_equal"))
    return found.collect()


@pytest.mark.long_proof(share=7)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", VALUES)
def test_the_compared_key_is_the_stored_one(
    spark: SparkSession, tmp_path: Path, kind: str, layout: str
) -> None:
    rows = stored_and_compared(spark, tmp_path, kind, layout, VALUES[kind])

    assert len(rows) == len(VALUES[kind])
    assert [row for row in rows if not row.is_equal] == []


LETTERS = st.text(st.sampled_from(" xé𝄞%/"), max_size=6)


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("layout", ["plain", "partitioned"])
@pytest.mark.parametrize("kind", ["STRING", "CHAR(3)", "VARCHAR(3)"])
@given(texts=st.lists(LETTERS, min_size=20, max_size=60))
@settings(max_examples=2, deadline=None)
def test_any_text_is_compared_as_it_is_stored(
    spark: SparkSession, tmp_path_factory: Any, kind: str, layout: str, texts: list[str]
) -> None:
    fitting = [text for text in texts if kind == "STRING" or len(text) <= 3]
    values = [f"'{text}'" for text in (fitting or ["x"])]

    rows = stored_and_compared(spark, tmp_path_factory.mktemp("keys"), kind, layout, values)

    assert [row for row in rows if not row.is_equal] == []


COMPOSITE = ["STRING", "CHAR(3)", "VARCHAR(3)", "DATE", "BIGINT"]


@pytest.mark.long_proof(share=4)
@pytest.mark.parametrize("partitioned_by", [[], ["k1"], ["k2"], ["k1", "k2"]])
def test_each_column_of_a_composite_key_is_compared_as_it_is_stored(
    spark: SparkSession, tmp_path: Path, partitioned_by: list[str]
) -> None:
    path = str(tmp_path / "table")
    kinds = {f"k{at}": kind for at, kind in enumerate(COMPOSITE)}
    columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    by = f" partitioned by ({', '.join(partitioned_by)})" if partitioned_by else ""
    spark.sql(f"create table delta.`{path}` (n INT, {columns}) using delta{by}")
    selected = []
    for n in range(14):  # each value of each type beside others
        values = {name: VALUES[kind][n % len(VALUES[kind])] for name, kind in kinds.items()}
        sent = {name: "STRING" if "CHAR" in kind else kind for name, kind in kinds.items()}
        casts = (f"cast({value} as {sent[name]}) as {name}" for name, value in values.items())
        selected.append(f"select {n} as n, {', '.join(casts)}")
    rows = spark.sql(" union all ".join(selected))
    rows.write.format("delta").mode("append").save(path)

    fields, stored_by = layout_of(spark, path)
    compared = as_stored(rows, changes(fields, stored_by, [*kinds]))

    table = spark.read.format("delta").load(path)
    same = F.expr(" and ".join(f"t.{name} <=> c.{name}" for name in kinds))
    assert table.alias("t").join(compared.alias("c"), same).where("t.n = c.n").count() == 14
