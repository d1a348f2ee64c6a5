"""Columns through SQL, without Spark: what is made, what is missing, what is left to Spark."""

from __future__ import annotations

import pytest

from pipelines.lint.sql_columns import SCALAR, Columns, columns_of_ddl, columns_of_select

VALUE = columns_of_ddl(
    "id INT NOT NULL, amount DECIMAL(10, 2) COMMENT 'euros', place STRUCT<lat: DOUBLE, `l on` INT>,"
    " items ARRAY<STRUCT<price INT>>, tags MAP<STRING, STRING>, any VARIANT"
)
RAW = Columns({"key": SCALAR, "value": VALUE, "topic": SCALAR, "timestamp": SCALAR})


def judged(sql):
    columns, findings = columns_of_select(sql, {"raw": RAW})
    at = [sql[each.index :].split()[0].rstrip(")") for each in findings]
    return columns, [f"{word}: {each.message}" for word, each in zip(at, findings, strict=True)]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("select * from raw", "key value topic timestamp"),
        ("select value.*, topic as _topic from raw", "id amount place items tags any _topic"),
        ("select value.place.* from raw", "lat l on"),
        ("select r.value.id, R.Topic from raw as r", "id topic"),
        ("select * except (key, topic) from raw", "value timestamp"),
        ("with q as (select value.* from raw) select q.* from q", "id amount place items tags any"),
        ("select * from (select value.id as a, topic from raw) as s (x, y)", "x y"),
        ("select topic from raw union all select 'x' from raw", "topic"),
        ("select explode(value.tags) as (k, v) from raw", "k v"),
        ("from raw select topic", "topic"),
    ],
)
def test_the_columns_of_a_select_are_known(sql, names):
    columns, findings = judged(sql)

    assert (" ".join(columns.names), columns.is_open, findings) == (names, False, [])


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select topc from raw", "topc: no column `topc`; did you mean `topic`?"),
        (
            "select zzz from raw",
            "zzz: no column `zzz`; there is `key`, `value`, `topic`, `timestamp`",
        ),
        ("select value.idd from raw", "idd: `value` has no field `idd`; did you mean `id`?"),
        ("select r.topc from raw r", "topc: `r` has no column `topc`; did you mean `topic`?"),
        ("select topic.x from raw", "x: `topic` has no fields, so no `x`"),
        ("select topic.* from raw", "topic.*: `topic` has no fields, so no `topic.*`"),
        ("select value.place.alt from raw",
         "alt: `place` has no field `alt`; did you mean `lat`?"),
        ("select value.items.prize from raw",
         "prize: `items` has no field `prize`; did you mean `price`?"),
        ("select topic from rwa", "rwa: no table `rwa`; did you mean `raw`?"),
        ("select topic from orders", "orders: no table `orders`; there is `raw`"),
        ("select topic from raw where topik = 'x'", "topik: no column `topik`; did you mean "
         "`topic`?"),
        ("select transform(value.items, x -> x.price + nope) as p from raw",
         "nope: no column `nope`; there is `key`, `value`, `topic`, `timestamp`"),
        ("select x.no from (select value.id from raw) x",
         "no: `x` has no column `no`; there is `id`"),
        ("select 1 as a from raw where value.id in (select value.idd from raw)",
         "idd: `value` has no field `idd`; did you mean `id`?"),
        ("selec 1 from raw", "1: SQL that cannot be read near `1`"),
        ("select 'a from raw", "'a: SQL that cannot be read: no end of '"),
        ("drop table raw", "drop: expected a SELECT over the inputs, by their names"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_told_with_what_is_near(sql, expected):
    assert judged(sql)[1] == [expected]


@pytest.mark.parametrize(
    "sql",
    [
        "select value.tags.anything, value.any.a.b, value:a.b as c from raw",
        "select value.id as i, i + 1 as j from raw where value.id > 1",
        "select current_date, user, localtimestamp, current_timestamp from raw",
        "select /*+ REPARTITION(3, x) */ topic from raw",
        "select extract(year from timestamp) as y,"
        " timestampdiff(MINUTE, timestamp, timestamp) as d, dateadd(day, 1, timestamp) as e,"
        " interval '1' day as i, cast(topic as timestamp_ntz) as t from raw",
        "select aggregate(value.items, 0, (acc, x) -> acc + x.price) as s, struct(topic as a) as b,"
        " named_struct('c', topic) as d from raw",
        "select w.price, topic from raw lateral view explode(value.items) z as w",
        "select a, b from values (1, 2) as t (a, b)",
        "select id, what from range(5), raw",
        "select x from (select value.id + 1 from raw)",
        "select x, d.y from delta.`/static` d",
        "select topic from raw r where exists (select 1 from raw q where q.topic = r.topic)",
        "select case when value.id > 1 then topic end as t, if(key is null, 1, 2) as u from raw",
        "select date '2020-01-01' as a, x'1F' as b, 1L as c, value.items[0].price as p from raw",
    ],
)
def test_nothing_is_said_of_what_only_spark_can_judge(sql):
    assert judged(sql)[1] == []


def test_a_name_that_two_columns_have_is_known():
    assert judged("select value.*, value.id, topic as Topic, topic from raw")[0].twice == (
        "id",
        "topic",
    )


def test_a_schema_that_cannot_be_read_is_left_to_spark():
    columns = columns_of_ddl("id INT amount DOUBLE,,")

    assert columns.is_open
