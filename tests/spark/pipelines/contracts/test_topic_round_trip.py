"""What a topic sink writes is what a source with the same columns reads, of every type."""

from __future__ import annotations

import math
import struct
from random import Random
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import MapType, StructType

from pipelines.base.errors import Place
from pipelines.formats import decode
from pipelines.formats.decode import Side
from pipelines.formats.json import JsonValues
from pipelines.model.pipeline import Sink
from pipelines.model.topic import SinkTopic
from pipelines.transforms.topic_rows import topic_rows
from tests.spark.pipelines.contracts.test_json_contract import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

AT = Place(file="f.yaml", line=1, column=1)
TARGET = SinkTopic(bootstrap="", topic="t", key=None, key_place=AT)
FIRST_US, LAST_US = -62_135_510_400_000_000, 253_402_214_399_999_999
"""0001-01-02 to 9999-12-30 in UTC: in no zone another year."""
SEED = 20261127

COLUMNS = {
    "flag": ("BOOLEAN", "flag"),
    "tiny": ("TINYINT", "cast(whole % 128 as TINYINT)"),
    "small": ("SMALLINT", "cast(whole % 32768 as SMALLINT)"),
    "number": ("INT", "cast(whole % 2147483648 as INT)"),
    "large": ("BIGINT", "whole"),
    "ratio": ("DOUBLE", "ratio"),
    "part": ("FLOAT", "if(abs(ratio) < 1e38D, cast(ratio as FLOAT), null)"),
    "money": ("DECIMAL(38,18)", "cast(digits as DECIMAL(38,18))"),
    "cents": ("DECIMAL(10,2)", "cast(whole % 10000000 as DECIMAL(10,2)) / 100"),
    "text": ("STRING", "text"),
    "bytes": ("BINARY", "encode(text, 'UTF-8')"),
    "day": ("DATE", "cast(timestamp_micros(us) as DATE)"),
    "at": ("TIMESTAMP", "timestamp_micros(us)"),
    "local": ("TIMESTAMP_NTZ", "local_at"),
    "times": ("ARRAY<TIMESTAMP>", "array(timestamp_micros(us), null)"),
    "sums": ("MAP<STRING, DECIMAL(38,18)>", "map(text, cast(digits as DECIMAL(38,18)))"),
    "deep": ("STRUCT<at: TIMESTAMP_NTZ, x: DOUBLE>", "named_struct('at', local_at, 'x', ratio)"),
}
"""Column → its type, and how it is made of generated values."""

EDGES = [
    (True, -(2**63), 5e-324, "0.000000000000000001", '\u2603"\\\x00', FIRST_US),
    (False, 2**63 - 1, 1.7976931348623157e308, "-9999999999999999999.999999999999999999", " ", -1),
    (None, 0, -0.0, "0", "", LAST_US),
    (None, 100, 2e-3, "1E+3", "NaN", 1_000),
]
DDL = "n INT, flag BOOLEAN, whole LONG, ratio DOUBLE, digits STRING, text STRING, us LONG"


def generated(random: Random) -> tuple[Any, ...]:
    """One row; the double has random bits, so every exponent comes as often."""
    ratio = math.nan
    while not math.isfinite(ratio):
        (ratio,) = struct.unpack("d", random.randbytes(8))
    text = "".join(chr(random.randrange(0xE000, 0x110000)) for _ in range(random.randrange(4)))
    digits = f"{random.randrange(-(10**19), 10**19)}.{random.randrange(10**18):018}"
    whole = random.getrandbits(64) - 2**63
    return (random.choice([None, True, False]), whole, ratio, digits, text,
            random.randrange(FIRST_US, LAST_US))  # fmt: skip


def made(spark: SparkSession, values: list[tuple[Any, ...]]) -> DataFrame:
    rows = spark.createDataFrame([(n, *row) for n, row in enumerate(values)], DDL)
    local = "timestamp_ntz'1970-01-01' + make_dt_interval(0, 0, 0, us div 1000000) "
    local += "+ make_dt_interval(0, 0, 0, (us % 1000000) / 1000000)"
    rows = rows.selectExpr("*", f"{local} as local_at")
    columns = [f"cast({sql} as {kind}) as {name}" for name, (kind, sql) in COLUMNS.items()]
    return rows.selectExpr("n", *columns)


def comparable(column: Column, kind: Any) -> Column:
    return F.map_entries(column) if isinstance(kind, MapType) else column


def test_what_a_topic_sink_writes_reads_back_equal(spark: SparkSession) -> None:
    """Also where the zone's offset has seconds, as Amsterdam's +00:17:30 before 1892."""
    random = Random(SEED)
    values = [*EDGES, *(generated(random) for _ in range(100))]
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Amsterdam")
    sink = Sink(name="s", place=AT, input="t", type="josefine", path=None, table=None, keys=(),
                aggregates=())  # fmt: skip
    rows = made(session, values).cache()

    records = topic_rows(sink, TARGET, rows.orderBy("n").drop("n"))
    sent = [row.value for row in records.collect()]

    schema: Any = StructType.fromDDL(", ".join(f"{n} {kind}" for n, (kind, _) in COLUMNS.items()))
    reading = (Side(column="value", values=JsonValues(schema)),)
    parsed = decode.parsed(rows_of(session, sent), reading).cache()
    assert decode.bad_rows(parsed, reading, "events").collect() == []
    read = decode.good_rows(parsed, reading).selectExpr("offset as n", "value")
    both = rows.join(read, "n")
    same = [
        comparable(F.col(each.name), each.dataType)
        .eqNullSafe(comparable(F.col(f"value.{each.name}"), each.dataType))
        .alias(each.name)
        for each in schema.fields
    ]
    found = both.select("n", *same).collect()
    wrong = [(row.n, name, sent[row.n]) for row in found for name in COLUMNS if not row[name]]
    assert (len(found), wrong) == (len(values), [])
    parsed.unpersist()
    rows.unpersist()
