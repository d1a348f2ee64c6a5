"""Lookup tables that transforms join with the stream, at their version when a batch starts.

A frame keeps the table version it was made from, so all steps of a batch see the same version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.base.errors import RunError
from pipelines.base.quoting import quoted
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.model.lookup import Lookup
from pipelines.model.test_case import json_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows_of(spark: SparkSession, lookup: Lookup) -> DataFrame:
    """The table's columns that the file names, at the newest version, or the rows given instead.
    Raises RunError if the table cannot be read or its columns differ."""
    from pyspark.errors import PySparkException

    wants = spark.createDataFrame([], lookup.schema)
    if lookup.rows is not None:
        return _given(wants, lookup)
    try:
        found = spark.read.format("delta")
        frame = found.load(lookup.path) if lookup.path else found.table(str(lookup.table))
        have = {name.lower(): kind for name, kind in frame.dtypes}
    except PySparkException as error:
        message = f"source `{lookup.name}`: {lookup.told} cannot be read: {clear_reason(error)}"
        raise RunError(message) from error
    wrong = [
        f"`{name}` is {have[name.lower()].upper()}, not {kind.upper()}"
        if name.lower() in have
        else f"no column `{name}`"
        for name, kind in wants.dtypes
        if have.get(name.lower()) != kind
    ]
    if wrong:
        said = f"its `schema` is not that of {lookup.told}: {', '.join(wrong)}"
        raise RunError(f"source `{lookup.name}`: {said}")
    return frame.select(*map(quoted, wants.columns))


def _given(wants: DataFrame, lookup: Lookup) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    if not lookup.rows:
        return wants
    texts = wants.sparkSession.createDataFrame([(json_text(r),) for r in lookup.rows], "t STRING")
    read = texts.select(F.from_json("t", wants.schema, {"mode": "FAILFAST"}).alias("row"))
    return read.select("row.*")
