"""Which Delta tables get files by a commit that Spark does not make: a table of their rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipelines.base.errors import Place
from pipelines.model.direct_append import (
    FREE_FEATURES,
    FREE_PROPERTIES,
    INDEXED_COLUMNS,
    TableRules,
    why_not_appended,
    why_not_created,
    why_not_here,
)
from pipelines.model.pipeline import Placed, Sink
from pipelines.model.table_features import FEATURES, Wish
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD


def column(name: str = "id", kind: Any = "integer", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}, **more}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(of: Any, nulls: bool = True) -> dict[str, Any]:
    return {"type": "array", "elementType": of, "containsNull": nulls}


ROWS = (column(), column("at", struct(column("t", "timestamp"))))
PLAIN = TableRules(reader=1, writer=2, columns=ROWS)
LISTED = replace(PLAIN, writer=7, features=frozenset(FREE_FEATURES), reader=3)
NEVER_NULL = replace(PLAIN, columns=(column(nullable=False), ROWS[1]))

DURATIONS = ("interval 365 days", "interval 1 week")
OBEYED = {
    "delta.checkpointRetentionDuration": DURATIONS,
    "delta.deletedFileRetentionDuration": DURATIONS,
    "delta.enableExpiredLogCleanup": ("true", "false"),
    "delta.logRetentionDuration": DURATIONS,
}

NEVER_NULL_INSIDE = struct(column("t", "timestamp", nullable=False))

DIRECT = (
    PLAIN,
    LISTED,
    replace(PLAIN, writer=4),
    replace(LISTED, reader=1),
    replace(
        PLAIN, properties={**dict.fromkeys(FREE_PROPERTIES - OBEYED.keys(), "1"), "owner": "me"}
    ),
    *(replace(PLAIN, properties={each: text}) for each, texts in OBEYED.items() for text in texts),
    replace(PLAIN, columns=(column(metadata={"comment": "of whom"}), ROWS[1])),
    replace(PLAIN, columns=ROWS[::-1]),
    *(
        replace(PLAIN, columns=ROWS[::-1], properties={INDEXED_COLUMNS: number})
        for number in ("-1", "0", "2")
    ),
)

BY_SPARK = (
    (replace(PLAIN, reader=2), "readers need version 2"),
    (replace(PLAIN, reader=3), "readers need version 3"),
    (replace(PLAIN, writer=5), "writers need version 5"),
    (replace(PLAIN, writer=8), "writers need version 8"),
    *(
        (replace(LISTED, features=FREE_FEATURES | {each}), f"the feature {each}")
        for each in (
            "columnMapping", "identityColumns", "deletionVectors", "rowTracking", "domainMetadata",
            "clustering", "inCommitTimestamp", "v2Checkpoint", "typeWidening", "icebergCompatV2",
            "variantType", "catalogManaged", "a feature of next year",
        )
    ),
    *(
        (replace(PLAIN, properties={each: "x"}), each)
        for each in (
            "delta.constraints.positive", "Delta.Constraints.positive",
            "delta.columnMapping.mode", "delta.enableRowTracking",
            "delta.dataSkippingStatsColumns", "delta.randomizeFilePrefixes", "delta.next",
        )
    ),
    *(
        (replace(PLAIN, properties={each.key: each.on}), each.key)
        for each in FEATURES
        if each.keyword != "change_data_feed"
    ),
    *(
        (replace(PLAIN, properties={each: text}), f"{each} is `{text}`")
        for each in OBEYED
        for text in ("365 days", "INTERVAL 365 DAYS", "interval 1 day 12 hours", "FALSE", "")
    ),
    (
        replace(PLAIN, columns=ROWS[::-1], properties={INDEXED_COLUMNS: "1"}),
        "the first 1 of its columns",
    ),
    (replace(PLAIN, partitions=("id",)), "partitioned by id"),
    *(
        (replace(PLAIN, columns=(column(metadata={word: "x"}), ROWS[1])), f"id has {word}")
        for word in (
            "delta.generationExpression", "delta.identity.start", "delta.invariants",
            "delta.columnMapping.id", "__CHAR_VARCHAR_TYPE_STRING", "CURRENT_DEFAULT",
        )
    ),
    (replace(PLAIN, columns=(*ROWS, column("more"))), "more is not in the rows"),
    (replace(PLAIN, columns=ROWS[:1]), "no column at"),
    (replace(PLAIN, columns=(column("ID"), ROWS[1])), "no column id"),
    (replace(PLAIN, columns=(column(kind="long"), ROWS[1])), "id has another type"),
    (replace(PLAIN, columns=(column(), column("at", struct(column("T"))))), "at has another type"),
    (NEVER_NULL, "id takes no null"),
    (
        replace(PLAIN, columns=(ROWS[0], column("at", NEVER_NULL_INSIDE))),
        "at takes no null",
    ),
)  # fmt: skip


@pytest.mark.parametrize("table", DIRECT, ids=range(len(DIRECT)))
def test_a_table_that_asks_for_nothing_gets_files(table: TableRules) -> None:
    assert why_not_appended(table, ROWS) == ""


@pytest.mark.parametrize(("table", "why"), BY_SPARK, ids=[why for _, why in BY_SPARK])
def test_a_table_that_asks_for_more_or_for_what_nobody_knows_is_written_by_spark(
    table: TableRules, why: str
) -> None:
    assert why in why_not_appended(table, ROWS)


def test_rows_that_are_never_null_fit_a_column_that_takes_no_null() -> None:
    assert why_not_appended(NEVER_NULL, NEVER_NULL.columns) == ""
    of_rows = (column("l", array("long", nulls=True)),)
    of_table = (column("l", array("long", nulls=False)),)
    assert why_not_appended(replace(PLAIN, columns=of_table), of_rows)
    assert not why_not_appended(replace(PLAIN, columns=of_rows), of_table)


@pytest.mark.parametrize(
    ("kind", "is_made"),
    [
        ("decimal(10,2)", True), ("string", True), (array(struct(column("a b"))), False),
        ("timestamp_ntz", False), ("variant", False), ("void", False), ("interval day", False),
        (array("timestamp_ntz"), False), ({"type": "udt"}, False),
        ({"type": "map", "keyType": "string", "valueType": "void"}, False),
    ],
)  # fmt: skip
def test_a_new_table_of_plain_columns_is_made_by_its_first_commit(kind: Any, is_made: bool) -> None:
    assert (why_not_created((column(kind=kind),)) == "") is is_made


def test_statistics_are_of_as_many_columns_as_the_table_says() -> None:
    def of(text: str) -> int:
        return replace(PLAIN, properties={"delta.dataSkippingNumIndexedCols": text}).indexed_columns

    assert [of("0"), of("-1"), of("7"), of("many"), PLAIN.indexed_columns] == [0, -1, 7, 32, 32]


def sink(**more: Any) -> Sink:
    pipeline, _, _ = read(GOOD)
    return replace(pipeline.sinks["lake"], **more)


def test_only_folders_of_this_machine_without_wishes_of_the_file_get_files() -> None:
    here = Place(file="f.yaml", line=1, column=1)
    plain = sink(constraints={}, cluster_by=(), partition_by=(), wishes=())
    wish = Wish(key="delta.enableRowTracking", value="true", word="w", place=here)
    asked = (
        {"constraints": {"c": Placed(text="id > 0", place=here, path="")}},
        {"cluster_by": ("id",)},
        {"partition_by": ("id",)},
        {"wishes": (wish,)},
    )

    assert why_not_here(plain, "/lake/t-1.x", ["spark.sql.shuffle.partitions"]) == ""
    for more in asked:
        assert next(iter(more)) in why_not_here(replace(plain, **more), "/lake/t", [])
    for path in ("s3a://lake/t", "file:/lake/t", "/la ke/t", "/lake/%20", "lake/t", "/läke/t"):
        assert "folder" in why_not_here(plain, path, [])
    for setting in (
        "spark.databricks.delta.properties.defaults.enableChangeDataFeed",
        "spark.delta.logStore.file.impl",
        "spark.sql.parquet.datetimeRebaseModeInWrite",
        "spark.sql.legacy.parquet.datetimeRebaseModeInWrite",
    ):
        assert setting in why_not_here(plain, "/lake/t", ["spark.x", setting])
    delta = "spark.databricks.delta."
    own = [f"{delta}snapshotPartitions", f"{delta}lastCommitVersionInSession"]
    assert why_not_here(plain, "/lake/t", own) == ""
