"""`josefine sql` with a real broker, real tables and a writer that runs meanwhile."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.query.answer import answering
from josefine_lake.query.brokers import Cluster
from josefine_lake.query.plan import Options
from josefine_lake.writer.topic_reader import TopicReader
from tests.integration.test_table_topics import made, sent, tables
from tests.support.cli import COMMAND, Done, environment, josefine
from tests.support.fixtures import broker_fixture
from tests.support.processes import ChildProcess

broker = broker_fixture(group__initial_rebalance_delay_ms=0, group__min_session_timeout_ms=500)

PARTITIONS, KEYS = 2, 20
SEAM_S = 30
"""How long a slow machine may take for the polls of each day."""


def sql(broker: Any, *words: str, stdin: str = "") -> Done:
    return josefine(broker.bootstrap, "sql", *words, stdin=stdin)


def test_rows_of_table_and_log_in_each_format_with_their_offsets(
    broker: Any, tmp_path: Path
) -> None:
    schema = (
        "id BIGINT, amount DECIMAL(20,2), at TIMESTAMP, note STRING, data BINARY, tags ARRAY<INT>"
    )
    made(broker, "web.v-1", location=str(tmp_path / "t"), format="json", schema=schema)
    first = {"id": 1, "amount": 123456789012345678.05, "at": "2024-01-31T23:59:59.000001Z"}
    big = json.dumps(first).replace("1.2345678901234568e+17", "123456789012345678.05")
    sent(broker, "web.v-1", [big.encode(), {"id": 2, "note": "", "data": "/w==", "tags": [1]}])
    assert tables(broker, "run", "--topic", "web.v-1", "--once").code == 0
    sent(broker, "web.v-1", [{"id": 3, "note": "NULL"}, b"not json"])
    select = 'select id, amount, "at", note, data, tags from "web.v-1" order by id'

    table = sql(broker, select)
    lines = sql(broker, "-", "--format", "json", stdin=select)
    csv = sql(broker, select, "--format", "csv")
    cut = sql(broker, select, "--limit", "2", "--format", "csv")

    assert (table.code, lines.code, csv.code, cut.code) == (0, 0, 0, 0), table.err + csv.err
    assert [line.split() for line in table.out.splitlines()] == [
        ["id", "amount", "at", "note", "data", "tags"],
        ["1", "123456789012345678.05", "2024-01-31", "23:59:59.000001+00", *["NULL"] * 3],
        ["2", "NULL", "NULL", r"\xFF", "[1]"],
        ["3", "NULL", "NULL", "'NULL'", "NULL", "NULL"],
    ]
    assert lines.out.splitlines() == [
        '{"id":1,"amount":123456789012345678.05,"at":"2024-01-31T23:59:59.000001Z","note":null,'
        '"data":null,"tags":null}',
        '{"id":2,"amount":null,"at":null,"note":"","data_base64":"/w==","tags":[1]}',
        '{"id":3,"amount":null,"at":null,"note":"NULL","data":null,"tags":null}',
    ]
    assert csv.out.splitlines() == [
        "id,amount,at,note,data,tags",
        "1,123456789012345678.05,2024-01-31 23:59:59.000001+00,,,",
        r'2,,,"",\xFF,[1]',
        "3,,,NULL,,",
    ]
    holds = (
        "web.v-1: offsets up to 0:4, table version 1: 2 rows, log: 1 row, "
        "1 bad record not shown (0:3 not JSON)\n"
    )
    assert table.err == lines.err == csv.err == holds
    assert cut.out.splitlines() == csv.out.splitlines()[:3]
    assert cut.err == "cut after 2 rows: --limit 0 prints all\n" + holds


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("drop table x",), "DROP is not a statement that only reads"),
        (("from read_csv('/etc/passwd')",), "the statement reads topics alone: no files"),
        (("from nothing_of_that_name",), "no topic 'nothing_of_that_name'"),
        (("select 1", "--at", "x"), "--at x: expected VERSION or TOPIC=VERSION"),
        (("select 1", "--max-tail-bytes", "x"), "expected a size such as 256MB"),
        (("select 1", "--memory", "x"), "Memory must have a number"),
        (("select 'a'::int",), "Could not convert string 'a' to INT32"),
    ],
)
def test_a_mistake_is_one_sentence(broker: Any, words: tuple[str, ...], what: str) -> None:
    done = sql(broker, *words)

    assert done.code != 0
    assert what in done.err
    assert done.out == ""
    assert len(done.err.splitlines()) == 1


def test_transactions_count_once_they_are_committed(broker: Any, tmp_path: Path) -> None:
    made(broker, "decided", location=str(tmp_path / "t"))
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "sql"})
    producer.init_transactions()

    def transaction(value: bytes, end: Any) -> None:
        producer.begin_transaction()
        producer.produce("decided", value, partition=0)
        producer.flush()
        end()

    transaction(b"a", producer.commit_transaction)
    tables(broker, "run", "--topic", "decided", "--once")
    transaction(b"b", producer.abort_transaction)
    transaction(b"c", producer.commit_transaction)
    transaction(b"d", lambda: None)
    sent(broker, "decided", [b"e"])

    before = sql(broker, "select value from decided", "--format", "csv")
    producer.abort_transaction()
    after = sql(broker, "select value from decided", "--format", "csv")

    assert before.out.split() == ["value", "a", "c"], before.err
    assert after.out.split() == ["value", "a", "c", "e"]
    assert before.err.startswith("decided: offsets up to 0:6, table version 1: 1 row, log: 1 row")


class Load(threading.Thread):
    """Transactions of random sizes into both topics, of which every fourth is aborted."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "load"})
        self._ended = threading.Event()

    def run(self) -> None:
        chance = random.Random(40)
        self._producer.init_transactions()
        # Not as fast as it can: each poll is compared with all records.
        while not self._ended.wait(0.02):
            self._producer.begin_transaction()
            for _ in range(chance.randrange(1, 30)):
                key = chance.randrange(KEYS)
                value = json.dumps({"id": key}).encode()
                # A key is in one partition, so the order of its changes is that of offsets.
                self._producer.produce("appended", value, partition=key % PARTITIONS)
                tombstone = chance.random() < 0.1
                self._producer.produce(
                    "latest", None if tombstone else value, value, partition=key % PARTITIONS
                )
            self._producer.flush()
            if chance.random() < 0.25:
                self._producer.abort_transaction()
            else:
                self._producer.commit_transaction()

    def end(self) -> None:
        self._ended.set()
        self.join(30)


SEAM = """
select 'appended', _partition, count(*), count(distinct _offset), sum(_offset) from appended
group by all union all
select 'latest', _partition, count(*), count(distinct id), sum(_offset) from latest group by all
"""


@pytest.mark.parametrize("polls", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_no_row_is_missing_or_doubled_at_the_seam_while_the_writer_commits(
    broker: Any, tmp_path: Path, polls: int
) -> None:
    for topic, mode in (("appended", {}), ("latest", {"mode": "upsert", "keys": "id"})):
        made(
            broker, topic, PARTITIONS, location=str(tmp_path / topic), format="json",
            schema="id BIGINT", target__lag__ms="100", **mode,
        )  # fmt: skip
    words = [*COMMAND, "tables", "run", "--topic", "appended", "--topic", "latest"]
    load = Load(broker.bootstrap)
    writer = ChildProcess(words, env=environment(broker.bootstrap))
    found = []
    try:
        load.start()
        with BlockingClient(broker.bootstrap) as client:
            until = time.monotonic() + SEAM_S * max(1, polls // 20)
            while len(found) < polls and time.monotonic() < until:
                with answering(Cluster(client), SEAM, Options(), os.environ) as answer:
                    rows = {(row[0], row[1]): row[2:] for row in answer.relation.fetchall()}
                    held = {each.topic: each for each in answer.holds}
                # A poll without rows of both sides shows nothing of the seam.
                if all(held[each].table_rows and held[each].tail_rows for each in held):
                    found.append((rows, {tp: n for e in held.values() for tp, n in e.ends.items()}))
    finally:
        load.end()
        writer.terminate()
        writer.wait(90)

    logs = {topic: committed(broker, topic) for topic in ("appended", "latest")}
    versions = set()
    for rows, ends in found:
        assert rows == {
            **expected_appended(logs["appended"], ends),
            **expected_latest(logs["latest"], ends),
        }
        versions.add(tuple(sorted(ends.items())))
    assert len(versions) > 1, "no poll saw rows of both sides, or all saw the same"


def committed(broker: Any, topic: str) -> list[tuple[TopicPartition, int, int, bool]]:
    """Of each committed record its partition, offset, key, and whether it deletes."""
    found = []
    with BlockingClient(broker.bootstrap) as client:
        reader = TopicReader(client, topic)
        at = dict.fromkeys(reader.look().bounds, 0)
        ends = reader.stable_ends(at)
        while any(at[tp] < end for tp, end in ends.items()):
            for read in reader.fetch(at, 100):
                at[read.partition] = read.next_offset
                for row in (row for batch in read.batches for row in batch.to_pylist()):
                    said = json.loads(row["value"] or row["key"])
                    place = (read.partition, row["offset"], said["id"], row["value"] is None)
                    found.append(place)
    return found


def expected_appended(
    log: list[tuple[TopicPartition, int, int, bool]], ends: Mapping[TopicPartition, int]
) -> dict[tuple[str, int], tuple[int, int, int]]:
    offsets: dict[int, list[int]] = {}
    for tp, at, _, _ in log:
        if at < ends[tp]:
            offsets.setdefault(tp.partition, []).append(at)
    return {("appended", p): (len(each), len(each), sum(each)) for p, each in offsets.items()}


def expected_latest(
    log: list[tuple[TopicPartition, int, int, bool]], ends: Mapping[TopicPartition, int]
) -> dict[tuple[str, int], tuple[int, int, int]]:
    rows: dict[int, tuple[int, int]] = {}
    for tp, at, key, deletes in log:
        if at < ends[tp]:
            rows.pop(key, None)
            if not deletes:
                rows[key] = (tp.partition, at)
    found: dict[tuple[str, int], tuple[int, int, int]] = {}
    for partition, at in rows.values():
        count, _, total = found.get(("latest", partition), (0, 0, 0))
        found["latest", partition] = (count + 1, count + 1, total + at)
    return found
