"""A value whose type a column holds is the same when it is read back, also deep within others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipelines.model.column_types import holds, wider
from pipelines.model.schema_evolution import Evolution, Steps, fit
from pipelines.sinks.delta_tables import change_columns
from pipelines.transforms.dataframes import types
from pipelines.transforms.table_types import as_typed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

VALUES: dict[str, list[str]] = {
    "tinyint": ["-128", "0", "127"],
    "smallint": ["-32768", "0", "32767"],
    "int": ["-2147483648", "0", "2147483647"],
    "bigint": ["-9223372036854775808", "0", "9223372036854775807"],
    "decimal(2,0)": ["-99", "0", "99"],
    "decimal(9,0)": ["-999999999", "0", "999999999"],
    "decimal(18,0)": ["-999999999999999999", "0", "999999999999999999"],
    "decimal(5,2)": ["-999.99", "0", "999.99"],
    "decimal(38,10)": ["-9999999999999999999999999999.9999999999", "0", "0.0000000001"],
    "float": ["-3.4028235e38", "'NaN'", "1e-45"],
    "double": ["-1.7976931348623157e308", "-0.0", "4.9e-324"],
    "date": ["'0001-01-01'", "'1582-10-15'", "'9999-12-31'"],
    "timestamp": ["'1900-01-02T00:00:00.000001Z'", "'2024-10-27T00:30:00.123456Z'", "null"],
    "timestamp_ntz": ["'1900-01-01 00:00:00.1'", "'2024-10-27 02:30:00.123456'", "null"],
    "string": ["''", "'é𝄞 '", "null"],
    "binary": ["X'00ff'", "X''", "null"],
    "boolean": ["true", "false", "null"],
    "void": ["null", "null", "null"],
}
PAIRS = [(have, want) for have in VALUES for want in VALUES if have != "void" and holds(have, want)]
FORMS = {
    "column": ("{}", "{}", "{}"),
    "field": ("STRUCT<more: INT, X: {}, `y z`: INT>", "named_struct('y z', 1, 'x', {})", "{}.x"),
    "element": ("ARRAY<STRUCT<X: {}>>", "array(null, struct({} as x))", "{}[1].x"),
    "value": ("MAP<STRING, STRUCT<X: {}>>", "map('k', struct({} as x))", "{}['k'].x"),
}
MAPPED = "tblproperties ('delta.columnMapping.mode' = 'name')"


@pytest.mark.long_proof(share=4)
@pytest.mark.parametrize("form", FORMS)
def test_a_value_is_read_back_as_it_was_sent(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    of_table, of_rows, back = FORMS[form]
    columns = ", ".join(f"c{n} {of_table.format(have)}" for n, (have, _) in enumerate(PAIRS))
    spark.sql(f"create table delta.`{tmp_path}/t` (n INT, {columns}) using delta {MAPPED}")
    schema = spark.read.format("delta").load(f"{tmp_path}/t").schema
    sent = _rows(spark, of_rows)

    as_typed(sent, schema).write.format("delta").mode("append").save(f"{tmp_path}/t")

    table = spark.read.format("delta").load(f"{tmp_path}/t")
    assert table.schema == schema
    found = [
        F.expr(f"t.{cell} is null" if want == "void" else f"cast(t.{cell} as {want}) <=> s.{cell}")
        for n, (_, want) in enumerate(PAIRS)
        for cell in [back.format(f"c{n}")]
    ]
    joined = table.alias("t").join(sent.alias("s"), F.expr("t.n = s.n")).select(*found)
    rows = joined.collect()
    wrong = {PAIRS[n] for row in rows for n, is_equal in enumerate(row) if not is_equal}
    assert (len(rows), wrong) == (3, set())


def _rows(spark: SparkSession, form: str) -> Any:
    """Rows with a column for each pair, of the type that is stored in the other one."""

    def values(row: int) -> Iterator[str]:
        for n, (_, want) in enumerate(PAIRS):
            value = "null" if want == "void" else f"cast({VALUES[want][row]} as {want})"
            yield f"{form.format(value)} as c{n}"

    selects = (f"select {row} as n, {', '.join(values(row))}" for row in range(3))
    return spark.sql(" union all ".join(selects))


GROWN = {
    (have, str(wider(have, want)))
    for have in VALUES
    for want in VALUES
    if not holds(have, want) and wider(have, want)
}


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("part", range(3))
def test_delta_changes_a_type_to_each_that_the_file_can_ask_for(
    spark: SparkSession, tmp_path: Path, part: int
) -> None:
    pairs = sorted(GROWN)[part::3]
    columns = ", ".join(f"c{n} STRUCT<x: {have}>" for n, (have, _) in enumerate(pairs))
    path = f"{tmp_path}/t"
    spark.sql(f"create table delta.`{path}` ({columns}) using delta")
    wants = {
        f"c{n}": {"type": "struct", "fields": [{"name": "x", "type": to}]}
        for n, (_, to) in enumerate(pairs)
    }
    have = types(spark.read.format("delta").load(path))

    steps = fit(have, wants, (), Evolution.WIDEN, merges=False)
    assert isinstance(steps, Steps)
    change_columns(spark, path, steps)

    now = types(spark.read.format("delta").load(path))
    assert fit(now, wants, (), Evolution.NONE, merges=False) == Steps()
