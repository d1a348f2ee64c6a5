"""SELECTs that are not row by row are refused without Spark, each at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.lint.lint import lint_file
from pipelines.lint.row_by_row import row_by_row_findings
from pipelines.transforms.row_by_row import (
    CONSTANTS,
    JOIN,
    SUBQUERY,
    TABLE_ROWS,
    WORDS,
    why_refused,
)

REFUSED = {
    "select a, count(*) as c from ev group by a": ("group by", WORDS["Aggregate"]),
    "select max(a) as a from ev": ("max", WORDS["Aggregate"]),
    "select a from ev having true": ("having", WORDS["Aggregate"]),
    "select a from (select max(b) as a from ev)": ("max", WORDS["Aggregate"]),
    "with w as (select max(b) as a from ev) select a from w": ("max", WORDS["Aggregate"]),
    "select distinct a from ev": ("distinct", WORDS["Distinct"]),
    "select a from ev limit 3": ("limit", WORDS["GlobalLimit"]),
    "select a from ev union all select b from ev limit 3": ("limit", WORDS["GlobalLimit"]),
    "select a from ev offset 3": ("offset", WORDS["Offset"]),
    "select a from ev order by a": ("order by", WORDS["Sort"]),
    "select a from ev tablesample (5 percent)": ("tablesample", WORDS["Sample"]),
    "select row_number() over (order by a) as r from ev": ("row_number", WORDS["Window"]),
    "select a from ev union select b from ev": ("union", WORDS["Distinct"]),
    "select a from ev intersect select 1": ("intersect", WORDS["Intersect"]),
    "select a from ev except select k from t": ("except", WORDS["Except"]),
    "select 1 as a": ("1", CONSTANTS),
    "select a from ev union all select 99": ("99", CONSTANTS),
    "select id as a from range(3)": ("id", CONSTANTS),
    "select a from ev union all select k from t": ("k from", TABLE_ROWS),
    "select x.a from ev x join ev y on x.a = y.a": ("ev y", JOIN),
    "select a from ev where a not in (select b + 1 from ev)": ("b + 1", SUBQUERY),
    "select a, (select max(b) from ev) as m from ev": ("max(b)", SUBQUERY),
    "with w as (select b from ev) select a from ev where a in (select w.b from w)": (
        "w.b from",
        SUBQUERY,
    ),
}
ROW_BY_ROW = (
    "select a, b from ev where a > 1 union all select b, a from ev",
    "select e from ev lateral view explode(b) x as e",
    "select transform(b, x -> x + 1) as c, aggregate(b, 0, (s, x) -> s + x) as s from ev",
    "select a, n from ev left join t on t.k = ev.a",
    "select a from ev join (select k, max(n) as n from t group by k) m on m.k = ev.a",
    "select a, (select max(n) from t where k = ev.a) as n from ev",
    "select a from ev where exists (select distinct 1 from t where k = ev.a)",
    "select a from ev where a in (select 1)",
    "with ev as (select a from ev) select a from ev",
    "select a from ev join (values (1)) as p(q) on p.q = ev.a",
    "selec a from ev",
)

FILE = """\
version: 1
name: counted
spark: { checkpoint: /ck }
sources:
  ev: { type: memory, records: [ { value: 1 } ] }
transforms:
  rows: { inputs: [ev], sql: "select partition, count(*) as n from ev group by partition" }
sinks:
  out: { type: delta, inputs: [rows], path: /out, mode: append }
trigger: { available_now: true }
"""


@pytest.mark.parametrize("sql", REFUSED)
def test_a_part_that_needs_more_than_one_row_is_found_at_its_place(sql: str) -> None:
    at, word = REFUSED[sql]

    found = [(each.index, each.message) for each in row_by_row_findings(sql, ["t"])]

    assert found == [(sql.index(at), why_refused(word, ["t"]))]


@pytest.mark.parametrize("sql", ROW_BY_ROW)
def test_a_select_that_is_row_by_row_has_no_finding(sql: str) -> None:
    assert row_by_row_findings(sql, ["t"]) == ()


def test_group_by_is_refused_by_lint_with_its_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "counted.yaml"
    file.write_text(FILE)

    (problem,) = lint_file(file, {}).problems

    assert (problem.place.line, problem.path) == (7, "transforms.rows.sql")
    assert problem.message == why_refused(WORDS["Aggregate"])
    assert FILE.splitlines()[6][problem.place.column - 1 :].startswith("group by")
