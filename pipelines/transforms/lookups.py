"""The rows of a table that transforms join the stream with: as it is when a batch begins.

A frame keeps the version that it was made of, so a batch that is counted and written sees one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pipelines.base.errors import RunError
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.model.lookup import Lookup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows_of(spark: SparkSession, lookup: Lookup) -> DataFrame:
    """The columns that the file names, at the newest version; or the rows in its place. Raises
    RunError where the table has others, or is none."""
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
    return frame.select(*[f"`{name}`" for name in wants.columns])


def _given(wants: DataFrame, lookup: Lookup) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    if not lookup.rows:
        return wants
    texts = wants.sparkSession.createDataFrame([(json.dumps(r),) for r in lookup.rows], "t STRING")
    read = texts.select(F.from_json("t", wants.schema, {"mode": "FAILFAST"}).alias("row"))
    return read.select("row.*")
