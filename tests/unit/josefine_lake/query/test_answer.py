"""The faults of a query: each is refused in a sentence, or the answer is exact all the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from josefine_lake.query.refusals import QueryError
from tests.unit.josefine_lake.query.world import (
    MemoryTopic,
    ask,
    json_topic,
    memory_topic,
    write,
)

COUNT = "select count(*), sum(id) from orders"


def sent(topic: MemoryTopic, *ids: int, partition: int = 0) -> None:
    for each in ids:
        topic.send(partition, json.dumps({"id": each}).encode())


def kept(tmp_path: Path, **more: str) -> MemoryTopic:
    """A topic with two rows in its table and one in its log alone."""
    topic = json_topic(tmp_path, **more)
    sent(topic, 1, 2)
    write(topic)
    sent(topic, 4)
    return topic


def refused(statement: str, *topics: MemoryTopic, **more: Any) -> str:
    with pytest.raises(QueryError) as error:
        ask(statement, *topics, **more)
    return str(error.value)


def test_the_line_of_a_topic_says_up_to_which_offsets_the_answer_holds(tmp_path: Path) -> None:
    topic = kept(tmp_path)
    topic.send(1, b"not json")

    rows, holds = ask(COUNT, topic)

    assert rows == [(3, 7)]
    assert str(holds["orders"]) == (
        "orders: offsets up to 0:3 1:1, table version 1: 2 rows, log: 1 row, "
        "1 bad record not shown (1:0 not JSON)"
    )


def test_the_table_alone_holds_up_to_its_own_offsets_at_each_version(tmp_path: Path) -> None:
    topic = kept(tmp_path)
    write(topic)

    alone, holds = ask(COUNT, topic, tail=False)
    old, olds = ask(COUNT, topic, versions={"orders": 1})

    assert (alone, old) == ([(3, 7)], [(2, 3)])
    assert str(holds["orders"]) == "orders: offsets up to 0:3 1:0, table version 2: 3 rows"
    assert str(olds["orders"]) == "orders: offsets up to 0:2 1:0, table version 1: 2 rows"
    assert "has no version 9: its newest is 2" in refused(COUNT, topic, versions={"": 9})


def test_a_commit_between_the_looks_counts_no_row_twice(tmp_path: Path) -> None:
    topic = kept(tmp_path)

    def commit(step: str) -> None:
        sent(topic, 8)
        write(topic)

    rows, holds = ask(COUNT, topic, at=commit)

    end = dict(holds["orders"].ends)[topic.partition(0)]
    assert end == 4, "the ends are those after the look at the table"
    assert rows == [(4, 15)]


def test_topics_are_joined_by_their_names_in_quotes_and_in_any_case(tmp_path: Path) -> None:
    orders, names = (
        kept(tmp_path),
        json_topic(tmp_path, "web.names-v2", schema="id BIGINT, n STRING"),
    )
    names.send(0, b'{"id": 4, "n": "four"}')

    rows, holds = ask(
        'with o as (select * from ORDERS) select o.id, n from o left join "web.names-v2" using (id)'
        " order by id",
        orders,
        names,
    )

    assert rows == [(1, None), (2, None), (4, "four")]
    assert [*holds] == ["orders", "web.names-v2"]
    assert 'in double quotes: "web.names"' in refused("select * from web.names", orders, names)
    assert refused("select * from order", orders).startswith("SQL: Parser Error")
    assert refused("from orderz", orders) == "no topic 'orderz': did you mean 'orders'?"


def test_names_that_differ_in_case_are_two_topics_for_kafka_alone(tmp_path: Path) -> None:
    one, other = kept(tmp_path), json_topic(tmp_path, "Orders")

    assert ask("select count(*) from orders", one, other)[0] == [(3,)]
    assert "write one in quotes" in refused("from ORDERS", one, other)
    assert "differ in case only" in refused('select * from orders, "Orders"', one, other)


def test_a_topic_without_a_table_is_its_whole_log(tmp_path: Path) -> None:
    plain = memory_topic("orders", partitions=1)
    described = memory_topic("typed", partitions=1, format="json", schema="id BIGINT")
    for topic in (plain, described):
        sent(topic, 1, 2)
    described.first[0] = 1

    assert ask("select value from orders", plain)[0] == [(b'{"id": 1}',), (b'{"id": 2}',)]
    rows, holds = ask("select id from typed", described)
    assert rows == [(2,)]
    assert str(holds["typed"]) == "typed: offsets up to 0:2, log: 1 row"
    assert "has no table" in refused("from orders", plain, tail=False)


def recreated(topic: MemoryTopic) -> None:
    topic.id = "2"


def retained(topic: MemoryTopic) -> None:
    topic.first[0] = 3
    sent(topic, 9)


def shortened(topic: MemoryTopic) -> None:
    topic.last[0] = topic.stable[0] = 1


def dropped(topic: MemoryTopic) -> None:
    shutil.rmtree(str(topic.configs["josefine.table.location"]))


def restored(topic: MemoryTopic) -> None:
    DeltaTable(str(topic.configs["josefine.table.location"])).restore(0)


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        (recreated, "deleted and created again"),
        (retained, "have lost records that the table does not have; orders-0 offsets [2, 3)"),
        (shortened, "ends before the table's end"),
        (dropped, "the table has no commit of this sink (orders-0)"),
        (restored, "(orders-0)"),
    ],
)
def test_a_table_and_a_log_that_contradict_each_other_give_no_answer(
    tmp_path: Path, fault: Callable[[MemoryTopic], None], what: str
) -> None:
    topic = kept(tmp_path)

    fault(topic)
    why = refused(COUNT, topic)

    assert what in why
    assert why.startswith("topic 'orders': its table and its log do not fit together: ")
    assert "--no-tail reads the table alone; `josefine tables status --topic orders`" in why


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        (recreated, "was created again while it was read"),
        (retained, "orders-0: offset 2 is not in the log any more: it was deleted while"),
    ],
)
def test_a_log_that_changes_while_it_is_read_gives_no_answer(
    tmp_path: Path, fault: Callable[[MemoryTopic], None], what: str
) -> None:
    topic = kept(tmp_path)

    topic.before_fetch = lambda: fault(topic)

    assert what in refused(COUNT, topic)


def removed_files(place: Path) -> None:
    for file in place.glob("*.parquet"):
        file.unlink()


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        (removed_files, "files of version 1 are gone, by VACUUM"),
        (shutil.rmtree, "was dropped while it was read"),
    ],
)
def test_a_table_whose_files_go_while_they_are_read_is_named(
    tmp_path: Path, fault: Callable[[Path], None], what: str
) -> None:
    topic = kept(tmp_path)

    place = Path(str(topic.configs["josefine.table.location"]))

    def step(name: str) -> None:
        if name == "logs":
            fault(place)

    assert what in refused(COUNT, topic, at=step)


def test_a_partition_that_was_added_is_read_from_its_first_record(tmp_path: Path) -> None:
    topic = kept(tmp_path)
    topic.logs.append([])
    for each in (topic.first, topic.last, topic.stable):
        each.append(0)

    sent(topic, 100, partition=2)

    rows, holds = ask(COUNT, topic)
    assert rows == [(4, 107)]
    assert dict(holds["orders"].ends)[topic.partition(2)] == 1


def test_records_of_an_open_transaction_are_no_rows(tmp_path: Path) -> None:
    topic = kept(tmp_path)
    topic.last[0] += 1
    sent(topic, 1000)

    rows, holds = ask(COUNT, topic)

    assert rows == [(3, 7)]
    assert dict(holds["orders"].ends)[topic.partition(0)] == 3


def test_a_long_tail_stops_before_it_fills_the_memory(tmp_path: Path) -> None:
    topic = kept(tmp_path)
    sent(topic, *range(50))

    why = refused(COUNT, topic, tail_bytes_max=500)

    assert "the logs have more than 500 bytes that the tables have not (stopped in orders-0" in why
    assert "set --max-tail-bytes" in why
    assert "of 53)" in why


def test_columns_that_the_table_gets_with_its_next_commit_are_there_already(tmp_path: Path) -> None:
    topic = kept(tmp_path)
    topic.configs["josefine.table.schema"] = "id BIGINT, amount DECIMAL(10,2), geo STRUCT<x: INT>"
    topic.send(0, b'{"id": 5, "geo": {"x": 1}}')

    why = refused(COUNT, topic)
    topic.configs["josefine.table.schema.evolution"] = "add"
    rows, _ = ask("select id, geo.x from orders order by id", topic)

    assert "its table does not fit its log" in why
    assert rows == [(1, None), (2, None), (4, None), (5, 1)]
    write(topic)
    topic.configs["josefine.table.schema"] = "id BIGINT, geo STRUCT<x: INT, y: STRING>"
    topic.send(0, b'{"id": 6, "geo": {"x": 2, "y": "b"}}')
    rows, _ = ask("select id, amount, geo.x, geo.y from orders where id > 4 order by id", topic)
    assert rows == [(5, None, 1, None), (6, None, 2, "b")]


def test_a_table_of_another_mode_than_its_topic_gives_no_answer(tmp_path: Path) -> None:
    topic = kept(tmp_path)

    topic.configs |= {"josefine.table.mode": "upsert", "josefine.table.keys": "id"}

    why = refused(COUNT, topic)
    assert why.startswith("topic 'orders': its table was written with mode append, the topic has ")
    assert ask(COUNT, topic, tail=False)[0] == [(2, 3)]


def test_a_change_keeps_the_columns_that_are_not_the_topics(tmp_path: Path) -> None:
    topic = json_topic(tmp_path, mode="upsert", keys="id", schema="id BIGINT, name STRING")
    topic.send(0, b'{"id": 1, "name": "old"}')
    topic.send(0, b'{"id": 2, "name": "two"}')
    write(topic)
    table = DeltaTable(str(topic.configs["josefine.table.location"]))
    table.alter.add_columns([*_fields("note")])
    table.update(updates={"note": "'own'"})
    topic.send(0, b'{"id": 1, "name": "new"}')
    topic.send(0, b'{"id": 3, "name": "three"}')

    before, _ = ask("select id, name, note from orders order by id", topic)
    write(topic)
    after, _ = ask("select id, name, note from orders order by id", topic, tail=False)

    assert before == [(1, "new", "own"), (2, "two", "own"), (3, "three", None)]
    assert before == after


def _fields(*names: str) -> list[Any]:
    from deltalake import Field

    return [Field(name, "string") for name in names]


def test_a_table_that_delta_rs_cannot_read_is_refused_in_a_sentence(tmp_path: Path) -> None:
    topic = kept(tmp_path)
    log = Path(str(topic.configs["josefine.table.location"])) / "_delta_log"
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"]}  # fmt: skip
    (log / f"{2:020d}.json").write_text(json.dumps({"protocol": protocol}) + "\n")

    why = refused(COUNT, topic, tail=False)

    assert why.startswith("topic 'orders': delta-rs cannot read the table")
    assert "deletionVectors" in why
    assert why.endswith("read it with Spark")
