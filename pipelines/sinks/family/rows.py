"""The rows of a batch of a table family: cached, counted by table, and those that a table lacks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipelines.exactly_once.offset_chain import Commit
from pipelines.transforms.cached_rows import is_one_process
from pipelines.transforms.checks import RECORD
from pipelines.transforms.ordering import PRIVATE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NAME = f"{PRIVATE}table"
PLACE = {word: f"{PRIVATE}{word}" for word in RECORD}
"""Columns of a batch's rows that no table gets: the table's name and the record's place."""


def cached(rows: DataFrame) -> DataFrame:
    """The rows, each table's together: a table's job then reads its part of the cache alone."""
    spark = rows.sparkSession
    parts = spark.sparkContext.defaultParallelism
    if is_one_process(spark):
        parts = min(parts, os.cpu_count() or parts)
    return rows.repartition(parts, NAME).sortWithinPartitions(NAME).persist()


def counted(rows: DataFrame, tables_max: int) -> dict[Any, int]:
    """Table → the number of its rows, of one table more than the maximum at most."""
    found = rows.groupBy(NAME).count().limit(tables_max + 1).collect()
    return {row[0]: row[1] for row in found}


def above(rows: DataFrame, decision: Commit) -> DataFrame:
    """The rows of one table that it lacks."""
    from pyspark.sql import functions as F  # noqa: N812

    for (topic, partition), offset in sorted(decision.skip_below.items()):
        at = (F.col(PLACE["topic"]) == topic) & (F.col(PLACE["partition"]) == partition)
        rows = rows.where(~(at & (F.col(PLACE["offset"]) < offset)))
    return rows


def lacked(rows: DataFrame, decisions: Mapping[str, Commit]) -> DataFrame:
    """The rows of these tables, without those that each of them has."""
    from pyspark.sql import functions as F  # noqa: N812

    kept = rows.where(F.col(NAME).isin(*decisions))
    below = {
        f"{name}/{topic}/{partition}": offset
        for name, decision in decisions.items()
        for (topic, partition), offset in decision.skip_below.items()
    }
    if not below:
        return kept
    # One map instead of a condition for each partition: a plan of thousands takes minutes.
    words: list[Column] = [F.lit(word) for pair in below.items() for word in pair]
    place = F.concat_ws("/", NAME, PLACE["topic"], F.col(PLACE["partition"]).cast("string"))
    end = F.try_element_at(F.create_map(*words), place)
    return kept.where(end.isNull() | (F.col(PLACE["offset"]) >= end))
