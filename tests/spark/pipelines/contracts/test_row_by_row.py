"""Row-by-row transforms: where a stream is cut into batches changes no row of the table."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipelines.base.errors import ConfigError
from pipelines.config.validate import read_pipeline
from pipelines.model.plan import PipelinePlan, compile_plan
from pipelines.transforms import dataframes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PIPELINE = """\
version: 1
name: cut
spark: {{ checkpoint: /ck }}
sources:
  ev: {{ type: memory, records: [ {{ value: 1 }} ] }}
  t: {{ type: delta, path: /t, schema: "k INT, n STRING" }}
transforms:
  rows:
    inputs: [ev, t]
    sql: >-
      {sql}
sinks:
  out: {{ type: delta, inputs: [rows], path: /out, mode: append }}
trigger: {{ available_now: true }}
"""
TABLE = ({"k": 1, "n": "a"}, {"k": 1, "n": "b"}, {"k": 3, "n": "c"})
RECORDS = "select * from values (1, array(1, 2)), (2, array()), (3, array(3)), (1, null) as (a, b)"
CUT = ("b is null", "b is not null and a < 3", "a = 3")
"""Conditions that cut the records into batches: equal values of `a`, and successive ones, meet in
one batch and not in several."""

BRANCHES = (
    "select a, 'x' as n from ev",
    "select a + 1 as a, case when a > 1 then 'y' end as n from ev where a <> 2",
    "select e as a, 'e' as n from ev lateral view explode(b) x as e",
    "select a, n from (select a from ev), (select max(n) as n from t)",
    "select ev.a, t.n from t right join ev on t.k = ev.a",
    "select a, (select max(n) from t where t.k = ev.a) as n from ev",
    "select a, 'in' as n from ev where a in (select k from t)",
    "select a, 'not' as n from ev where not exists (select 1 from t where t.k = ev.a)",
    "select a, 'one' as n from ev where a in (select 1)",
    "select a, n from ev join (values (1, 'p')) as p(q, n) on p.q = ev.a",
    "select a, n from ev unpivot (n for c in (b))",
)
"""SELECTs of `a` and `n` that are row by row."""
OUTER = (
    "{0}",
    "{0} union all {1}",
    "select a, n from ({0}) where a > 1",
    "with w as ({0}) select a, n from w union all select a, n from w where a = 1",
    "select /*+ repartition(2) */ a, n from ({0})",
)
REFUSED = {
    "a subquery over the stream": (
        "select a from ev where a not in (select a + 1 from ev)",
        "a subquery reads the stream",
    ),
    "a scalar subquery over the stream": (
        "select a, (select max(a) from ev) as m from ev",
        "a subquery reads the stream",
    ),
    "a named subquery over the stream": (
        "with w as (select a from ev) select a from ev where a in (select a + 1 from w)",
        "a subquery reads the stream",
    ),
    "a table that is filtered by the stream": (
        "select a from ev join (select k from t where k in (select a from ev)) x on x.k = ev.a",
        "a subquery reads the stream",
    ),
    "constants in a union": ("select a from ev union all select 99", "come from no input"),
    "literal rows in a union": ("select a from ev union all values (99)", "come from no input"),
    "constants only": ("select 1 as a", "come from no input"),
    "a table only": ("select k as a from t", "`t` may only add to each row"),
    "a table in a union": ("select a from ev union all select k from t", "`t` may only add"),
    "all rows of a table": ("select k as a from ev right join t on k = a", "`t` may only add"),
    "UNION": ("select a from ev union select a from ev", "UNION without ALL needs more"),
    "INTERSECT": ("select a from ev intersect select k from t", "INTERSECT needs more"),
    "INTERSECT with literals": ("select a from ev intersect select 1", "INTERSECT needs more"),
    "EXCEPT": ("select a from ev except select k from t", "EXCEPT needs more"),
    "DISTINCT": ("select distinct a from ev", "DISTINCT .* needs more"),
    "GROUP BY": ("select a, count(*) as c from ev group by a", "GROUP BY needs more"),
    "an aggregate": ("select max(a) as a from ev", "an aggregate .* needs more"),
    "a window": ("select a, row_number() over (order by a) as r from ev", "OVER. needs more"),
    "LIMIT": ("select a from ev limit 1", "LIMIT needs more"),
    "OFFSET": ("select a from ev offset 1", "OFFSET needs more"),
    "ORDER BY": ("select a from ev order by a", "ORDER BY needs more"),
    "TABLESAMPLE": ("select a from ev tablesample (50 percent)", "TABLESAMPLE needs more"),
    "the stream with itself": (
        "select x.a from ev x join ev y on x.a = y.a",
        "`t` may only add to each row of the stream",
    ),
    "rand": ("select a, rand() as r from ev", r"`rand\(\)` gives another value"),
    "uuid": ("select a, concat('x', uuid()) as r from ev", r"`uuid\(\)` gives another value"),
    "the row's place in its batch": (
        "select monotonically_increasing_id() as a from ev",
        r"`monotonically_increasing_id\(\)` gives another value",
    ),
}


def planned(folder: Path, sql: str) -> PipelinePlan:
    file = folder / "cut.yaml"
    file.write_text(PIPELINE.format(sql=sql))
    return compile_plan(read_pipeline(file, {}).with_rows({"t": TABLE}))


def rows_added(plan: PipelinePlan, whole: DataFrame, cut: list[DataFrame]) -> list[Counter[str]]:
    """What one batch adds to the table, and what several add: by one job of Spark."""
    made = [
        dataframes.rows_of(plan, "rows", batch).selectExpr(
            f"{number > 0} as many", "to_json(struct(*)) as row"
        )
        for number, batch in enumerate([whole, *cut])
    ]
    rows = reduce(DataFrame.union, made).collect()
    return [Counter(row["row"] for row in rows if row["many"] is many) for many in (False, True)]


def statements(random: Random) -> list[str]:
    """Each branch once, in a random outer query with another random branch."""
    return [random.choice(OUTER).format(one, random.choice(BRANCHES)) for one in BRANCHES]


def test_the_same_records_in_one_batch_and_in_many_give_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", 1)
    session.conf.set("spark.sql.leafNodeDefaultParallelism", 1)
    records = session.sql(RECORDS)
    random = Random(35)
    accepted = statements(random)
    run = random.sample(accepted, 5)  # a job takes a second, the check alone a tenth
    for sql in (*accepted, *(sql for sql, _ in REFUSED.values())):
        plan = planned(tmp_path, sql)
        try:
            dataframes.refuse_stateful(plan, "rows", records)
        except ConfigError:
            if sql in accepted:
                raise
            continue
        if sql in accepted and sql not in run:
            continue
        cut = [records.where(each) for each in CUT]
        whole, many = rows_added(plan, records, cut)
        assert whole == many, sql


@pytest.mark.parametrize("what", REFUSED)
def test_a_statement_that_is_not_row_by_row_is_refused_with_its_place_and_part(
    spark: SparkSession, tmp_path: Path, what: str
) -> None:
    sql, message = REFUSED[what]
    session = spark.newSession()

    with pytest.raises(ConfigError, match=rf"cut\.yaml:10:10: transforms\.rows\.sql: .*{message}"):
        dataframes.refuse_stateful(planned(tmp_path, sql), "rows", session.sql(RECORDS))
