"""Positions of Debezium's changes in Spark: as `position_of` has them, and the order of upserts."""

from __future__ import annotations

import pytest

from josefine_arrow.formats.debezium.envelope import SOURCE, SOURCE_NAMES
from pipelines.base.errors import Place
from pipelines.formats.debezium_rows import position, why_none
from pipelines.model.pipeline import Latest, Mode, Placed, Sink
from tests.spark.pipelines.test_upsert import _chain, _upsert
from tests.unit.josefine_arrow.formats.debezium.position_oracle import position_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

LSN = "0000002A:00000758:0003"
SOURCES = [
    {"connector": "postgresql", "lsn": 2**63 - 1},
    {"connector": "postgresql", "lsn": -1},
    {"connector": "postgresql"},
    *({"connector": "mysql", "file": f, "pos": 4} for f in ("b.999999", "b.1000000", "b", "")),
    {"connector": "mariadb", "file": "a.b.000012", "pos": 4, "row": 7},
    {"connector": "mysql", "file": "b.000012"},
    *({"connector": "oracle", "scn": s} for s in ("0", "000", "18446744073709551615", "1\n", "x")),
    {"connector": "oracle", "scn": "999999", "commit_scn": "1000000"},
    {"connector": "oracle", "scn": "999999", "commit_scn": "null"},
    {"connector": "oracle", "commit_scn": "7"},
    {"connector": "sqlserver", "commit_lsn": LSN, "change_lsn": LSN, "event_serial_no": 2},
    {"connector": "sqlserver", "commit_lsn": LSN, "change_lsn": "NULL"},
    {"connector": "sqlserver", "commit_lsn": "2a:758:3"},
    {"connector": "mongodb", "ts_ms": 1767225600000, "ord": 31},
    {"connector": "db2", "commit_lsn": LSN},
    {"lsn": 1},
]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_spark_has_the_positions_and_the_reasons_of_the_pure_function(spark):
    rows = [tuple(source.get(name) for name in SOURCE_NAMES) for source in SOURCES]
    frame = spark.createDataFrame(
        [(n, row) for n, row in enumerate(rows)], f"n INT, s STRUCT<{SOURCE}>"
    )

    found = frame.select(
        "n", position(frame.s, SOURCE_NAMES).alias("p"), why_none(frame.s, SOURCE_NAMES).alias("w")
    ).collect()

    assert {row.n: (row.p, row.w) for row in found} == {
        n: position_of(source) for n, source in enumerate(SOURCES)
    }


def sink(column):
    place = Place(file="f", line=1, column=1)
    gone = Placed(text="gone", place=place, path="")
    return Sink(
        name="s", place=place, input="", path=None, table=None, keys=("k",), aggregates=(),
        mode=Mode.UPSERT,
        latest=Latest(columns=(column, "at"), places=(place,) * 2, delete_when=gone, marks=True),
    )  # fmt: skip


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@pytest.mark.parametrize(("column", "wins"), [("position", True), ("file", False)])
def test_an_upsert_crosses_a_rollover_only_by_the_position(spark, tmp_path, column, wins):
    """An update and a delete after 999999, in one batch and in two."""
    log = [("a", 999999, False), ("b", 999999, False), ("a", 1000000, False), ("b", 1000000, True)]
    rows = []
    for at, (key, file, gone) in enumerate(log):
        source = {"connector": "mysql", "file": f"mysql-bin.{file}", "pos": 4 + at}
        order = source["file"] if column == "file" else position_of(source)[0]
        rows.append((key, order, at, gone))

    for cuts in ((0, 4), (0, 2, 4)):
        chain = _chain(spark, str(tmp_path / f"t{len(cuts)}"))
        schema = f"k STRING, {column} STRING, at INT, gone BOOLEAN"
        _upsert(spark, chain, sink(column), rows, cuts, schema)
        found = spark.read.format("delta").load(chain.path).collect()
        expected = {"a": (2, False), "b": (3, True)} if wins else {"a": (0, False), "b": (1, False)}
        assert {r.k: (r.at, r["_deleted"]) for r in found} == expected
