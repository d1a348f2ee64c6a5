"""One reading statement, its topics, and everything else refused."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from josefine_lake.query.engine import Engine
from josefine_lake.query.refusals import QueryError
from josefine_lake.query.statement import sentence, statement, topics_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("select 1", ()),
        ("FROM orders", ("orders",)),
        ("select * from a join b using (id) where x in (select y from c)", ("a", "b", "c")),
        ("with w as (select * from a), v as (select * from w) select * from v, b", ("a", "b")),
        ("with Orders as (select * from orders) select * from ORDERS", ("orders",)),
        ("with recursive r as (select 1 union all select * from r, z) from r", ("z",)),
        ("select * from (with k as (from m) from k) t, k", ("k", "m")),
        ('from "web.clicks-v1"', ("web.clicks-v1",)),
        ('from "we""ird"', ('we"ird',)),
        ("describe orders", ("orders",)),
        ("summarize orders", ("orders",)),
        ("explain select * from orders", ("orders",)),
        ("/* why */ EXPLAIN ANALYZE (FORMAT json) select * from orders", ("orders",)),
        ("pivot orders on kind in ('a') using sum(n)", ("orders",)),
    ],
)
def test_the_tables_of_a_statement_are_topics_unless_it_defines_them(
    text: str, names: tuple[str, ...]
) -> None:
    assert statement(text).names == names


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "expected one statement, found 0"),
        ("select 1; select 2", "expected one statement, found 2"),
        ("selec 1", 'SQL: Parser Error: syntax error at or near "selec"'),
        ("select 1\nfrom )", "(line 2)"),
        ("insert into a values (1)", "INSERT is not a statement that only reads"),
        ("copy (select 1) to 'x'", "COPY is not"),
        ("attach 'x'", "ATTACH is not"),
        ("set threads = 1", "SET is not"),
        ("install httpfs", "LOAD is not"),
        ("explain analyze delete from a", "EXPLAIN is for a statement that only reads"),
        ("pivot a on b using sum(c)", "write its values, ON column IN (...)"),
        ("from web.clicks", 'in double quotes: "web.clicks"'),
    ],
)
def test_other_statements_are_refused_in_a_sentence(text: str, what: str) -> None:
    with pytest.raises(QueryError) as error:
        statement(text)

    assert what in str(error.value)


def test_a_name_is_a_topic_in_its_own_case_or_the_only_one_in_another() -> None:
    topics = ["a", "A", "orders"]

    assert topics_of(["a", "Orders"], topics) == {"a": "a", "Orders": "orders"}
    with pytest.raises(QueryError, match="did you mean 'orders'"):
        topics_of(["ordres"], topics)
    with pytest.raises(QueryError, match="topics 'a' and 'A' differ in case only"):
        topics_of(["a", "A"], topics)


@pytest.mark.parametrize(
    "text",
    [
        "from read_csv('/etc/passwd')",
        "from '/etc/passwd'",
        "from read_text('/etc/passwd')",
        "from glob('/*')",
        "attach '/tmp/other.db'",
        "copy (select 1) to '/tmp/out.csv'",
        "install httpfs",
        "load httpfs",
        "set memory_limit = '1TB'",
        "set enable_external_access = true",
        "reset lock_configuration",
        "select getenv('HOME')",
        "from hidden",
    ],
)
def test_a_locked_engine_reaches_its_relations_alone(text: str) -> None:
    hidden = pa.table({"id": [1]})
    engine = Engine("200MB", "1GB")
    try:
        engine.add("shown", hidden)
        engine.lock()
        assert engine.run("from shown").fetchall() == [(1,)]
        with pytest.raises(duckdb.Error) as error:
            engine.run(text).fetchall()
        assert "\n" not in sentence(error.value)
    finally:
        engine.close()
