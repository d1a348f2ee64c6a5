"""Table topics with a real broker and real Delta tables: `josefine tables run`."""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic
from josefine_lake.config.leases import GROUP
from tests.support.broker import BrokerProcess
from tests.support.cli import COMMAND, Done, environment, josefine
from tests.support.fixtures import broker_fixture
from tests.support.processes import ChildProcess
from tests.support.waiting import wait_until

broker = broker_fixture(group__initial_rebalance_delay_ms=0, group__min_session_timeout_ms=500)

SCHEMA = "id BIGINT, name STRING, amount DECIMAL(10,2), tags ARRAY<STRING>"


def made(broker: Any, topic: str, partitions: int = 1, **configs: str) -> None:
    named = {f"josefine.table.{name.replace('__', '.')}": each for name, each in configs.items()}
    with BlockingClient(broker.bootstrap) as client:
        new = NewTopic(name=topic, partitions=partitions, configs=named)
        client.create_topics([new])
        client.partition_count(topic)


def sent(broker: Any, topic: str, values: list[Any], partition: int = 0) -> None:
    with BlockingClient(broker.bootstrap) as client:
        producer = BlockingProducer(client)
        for value in values:
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            producer.send(topic, None, data, partition=partition)
        producer.flush()


def tables(broker: Any, *words: str, fail: str = "") -> Done:
    """In this process; one that is to be killed at a failpoint is a process of its own."""
    if not fail:
        return josefine(broker.bootstrap, "tables", *words)
    env = {**environment(broker.bootstrap), "JOSEFINE_FAIL": fail}
    command = [*COMMAND, "tables", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def rows(place: Path) -> list[dict[str, Any]]:
    return sorted(
        DeltaTable(str(place)).to_pyarrow_table().to_pylist(),
        key=lambda row: (row.get("_partition", 0), row.get("_offset", row.get("offset", 0))),
    )


def said(place: Path) -> list[dict[str, Any]]:
    """The metadata of the table's chained commits, oldest first."""
    found = DeltaTable(str(place)).history()
    return [json.loads(each["userMetadata"]) for each in reversed(found) if "userMetadata" in each]


def test_json_records_are_rows_once_with_their_offsets_in_the_commit(
    broker: Any, tmp_path: Path
) -> None:
    lake = tmp_path / "orders"
    made(broker, "orders", location=str(lake), format="json", schema=SCHEMA)
    sent(broker, "orders", [{"id": n, "name": "a", "amount": 1.5, "tags": ["x"]} for n in (0, 1)])

    first = tables(broker, "run", "--topic", "orders", "--once")
    again = tables(broker, "run", "--topic", "orders", "--once")
    sent(broker, "orders", [{"id": 2}])
    more = tables(broker, "run", "--topic", "orders", "--once")

    assert (first.code, again.code, more.code) == (0, 0, 0), first.err + again.err
    assert [row["id"] for row in rows(lake)] == [0, 1, 2]
    assert [row["_offset"] for row in rows(lake)] == [0, 1, 2]
    assert [(each["start"], each["end"]) for each in said(lake)] == [
        ({"orders": {"0": 0}}, {"orders": {"0": 2}}),
        ({"orders": {"0": 2}}, {"orders": {"0": 3}}),
    ]
    with BlockingClient(broker.bootstrap) as client:
        tp = TopicPartition("orders", 0)
        assert client.committed_offsets(GROUP, [tp]) == {tp: 3}


def test_records_of_aborted_and_open_transactions_are_no_rows(broker: Any, tmp_path: Path) -> None:
    lake = tmp_path / "t"
    made(broker, "decided", location=str(lake))
    named = {"bootstrap.servers": broker.bootstrap, "transactional.id": "decided"}
    producer = Producer(named)
    producer.init_transactions()
    for value, commits in ((b"a", True), (b"b", False), (b"c", True)):
        producer.begin_transaction()
        producer.produce("decided", value, partition=0)
        producer.flush()
        (producer.commit_transaction if commits else producer.abort_transaction)()
    producer.begin_transaction()
    producer.produce("decided", b"d", partition=0)
    producer.flush()
    sent(broker, "decided", [b"e"])

    first = tables(broker, "run", "--topic", "decided", "--once")
    before = [row["value"] for row in rows(lake)]
    producer.abort_transaction()
    more = tables(broker, "run", "--topic", "decided", "--once")

    assert (first.code, more.code) == (0, 0), first.err + more.err
    assert before == [b"a", b"c"], "nothing after the last stable offset"
    assert [row["value"] for row in rows(lake)] == [b"a", b"c", b"e"]


@pytest.mark.parametrize("place", ["before_files", "before_commit", "after_commit"])
def test_a_kill_between_data_and_commit_loses_and_doubles_nothing(
    broker: Any, tmp_path: Path, place: str
) -> None:
    topic, lake = f"killed_{place}", tmp_path / "t"
    made(broker, topic, location=str(lake))
    sent(broker, topic, [b"a", b"b", b"c"])

    killed = tables(broker, "run", "--topic", topic, "--once", fail=place)
    done = tables(broker, "run", "--topic", topic, "--once")

    assert killed.code == -9
    assert done.code == 0, done.err
    assert [row["value"] for row in rows(lake)] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("place", ["before_dead_letters", "after_dead_letters"])
def test_a_record_that_does_not_decode_is_a_dead_letter_once(
    broker: Any, tmp_path: Path, place: str
) -> None:
    topic, lake, dead = f"letters_{place}", tmp_path / "t", tmp_path / "dead"
    made(broker, topic, location=str(lake), format="json", schema="id INT", dead__letter=str(dead))
    sent(broker, topic, [{"id": 1}, b"not json", {"id": "x"}, {"id": 2}])

    killed = tables(broker, "run", "--topic", topic, "--once", fail=place)
    sent(broker, topic, [b"{"])
    done = tables(broker, "run", "--topic", topic, "--once")

    assert killed.code == -9
    assert done.code == 0, done.err
    assert [row["id"] for row in rows(lake)] == [1, 2]
    assert [(row["offset"], row["stage"]) for row in rows(dead)] == [
        (1, "decode"), (2, "decode"), (4, "decode"),
    ]  # fmt: skip


def test_writers_share_the_tables_and_one_takes_over_those_of_one_that_was_killed(
    broker: Any, tmp_path: Path
) -> None:
    topics = [f"shared{number}" for number in range(4)]
    for topic in topics:
        lake = str(tmp_path / topic)
        made(broker, topic, partitions=3, location=lake, target__lag__ms="100")
    words = [
        *COMMAND,
        "tables",
        "run",
        "--session-timeout",
        "1s",
        *(w for topic in topics for w in ("-t", topic)),
    ]
    writers = [ChildProcess(words, env=environment(broker.bootstrap)) for _ in range(2)]

    def have(count: int) -> bool:
        return all(
            (tmp_path / t / "_delta_log").exists() and len(rows(tmp_path / t)) == count
            for t in topics
        )

    try:
        for topic in topics:
            sent(broker, topic, [b"a", b"b"], partition=1)
        wait_until(lambda: have(2), 60, what="rows of all tables")
        writers[0].kill()
        for topic in topics:
            sent(broker, topic, [b"c"], partition=2)
        wait_until(lambda: have(3), 60, what="rows of the killed writer's tables")
        writers[1].terminate()
        assert writers[1].wait(90) == 0
    finally:
        for each in writers:
            each.end()

    assert all(sorted(r["value"] for r in rows(tmp_path / t)) == [b"a", b"b", b"c"] for t in topics)
    runs = {each["run"] for topic in topics for each in said(tmp_path / topic)}
    assert len(runs) > 1


def test_a_table_with_a_poisoned_record_stops_alone(broker: Any, tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    how = {"format": "json", "schema": "id INT", "dead__letter": "fail", "target__lag__ms": "100"}
    made(broker, "healthy", location=str(good), **how)
    made(broker, "poisoned", location=str(bad), **how)
    sent(broker, "poisoned", [{"id": 1}, b"poison"])
    words = [*COMMAND, "tables", "run", "-t", "healthy", "-t", "poisoned"]
    writer = ChildProcess(words, env=environment(broker.bootstrap), stderr=subprocess.PIPE)

    try:
        assert writer.stderr is not None
        assert "/metrics" in writer.stderr.readline()
        first = writer.stderr.readline()
        sent(broker, "healthy", [{"id": 1}])
        wait_until(
            lambda: (good / "_delta_log").exists() and rows(good) != [], 30, what="a healthy row"
        )
        seen = state_of(broker, "poisoned")
        assert "poisoned-0 offset 1: not JSON" in seen["stopped"]
        assert "--config josefine.table.dead.letter=/TABLE" in seen["stopped"]
        assert state_of(broker, "healthy")["stopped"] == ""
    finally:
        writer.kill()
        writer.communicate()

    assert "poisoned-0 offset 1: not JSON" in first
    assert rows(bad) == []

    letters = f"josefine.table.dead.letter={tmp_path / 'letters'}"
    assert josefine(broker.bootstrap, "topics", "alter", "poisoned", "--config", letters).code == 0
    assert state_of(broker, "poisoned")["stopped"] == ""
    resumed = tables(broker, "run", "--topic", "poisoned", "--once")
    assert resumed.code == 0, resumed.err
    assert ([row["id"] for row in rows(bad)], len(rows(tmp_path / "letters"))) == ([1], 1)


def test_upsert_into_an_append_only_table_stops_with_a_sentence_in_the_status(
    broker: Any, tmp_path: Path
) -> None:
    lake = tmp_path / "only"
    how = {"format": "json", "schema": "id INT", "mode": "upsert", "keys": "id"}
    made(broker, "only", location=str(lake), **how)
    sent(broker, "only", [{"id": 1}])
    assert tables(broker, "run", "--topic", "only", "--once").code == 0
    DeltaTable(str(lake)).alter.set_table_properties({"delta.appendOnly": "true"})
    sent(broker, "only", [{"id": 2}])

    refused = tables(broker, "run", "--topic", "only", "--once")
    shown = state_of(broker, "only")["stopped"]
    DeltaTable(str(lake)).alter.set_table_properties({"delta.appendOnly": "false"})
    resumed = tables(broker, "run", "--topic", "only", "--once")

    assert refused.code == 1
    assert "it is append-only (delta.appendOnly), and mode upsert" in refused.err
    assert "it is append-only (delta.appendOnly), and mode upsert" in shown
    assert "set delta.appendOnly=false on the table" in shown
    assert resumed.code == 0, resumed.err
    assert sorted(row["id"] for row in rows(lake)) == [1, 2]


def state_of(broker: Any, topic: str) -> dict[str, Any]:
    """The state that `tables status` shows of one table."""
    found: list[dict[str, Any]] = json.loads(
        tables(broker, "status", "--topic", topic, "--json").out
    )
    return found[0]


def test_status_shows_lag_and_the_verdict_of_a_restored_table(broker: Any, tmp_path: Path) -> None:
    lake = tmp_path / "watched"
    made(broker, "watched", location=str(lake))

    def state() -> dict[str, Any]:
        found = tables(broker, "status", "--topic", "watched", "--json")
        assert found.code == 0, found.err
        return dict(json.loads(found.out)[0])

    sent(broker, "watched", [b"a"])
    before = state()
    assert tables(broker, "run", "--topic", "watched", "--once").code == 0
    sent(broker, "watched", [b"b", b"c"])
    assert tables(broker, "run", "--topic", "watched", "--once").code == 0
    after = state()
    DeltaTable(str(lake)).restore(1)
    restored = tables(broker, "run", "--topic", "watched", "--once")
    trusted = tables(broker, "run", "--topic", "watched", "--once", "--trust", "table")

    assert (before["lag"], before["files"], before["stopped"]) == (1, 0, "")
    assert (after["lag"], after["files"], after["stopped"]) == (0, 2, "")
    assert (before["lag_ms"] > 0, after["lag_ms"]) == (True, 0)
    assert restored.code == 1
    assert "the table has less than" in restored.err
    assert "--trust table" in restored.err
    assert trusted.code == 0, trusted.err
    assert [row["value"] for row in rows(lake)] == [b"a", b"b", b"c"]


def test_a_broker_with_tables_keeps_them_and_its_writer_ends_with_it(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    env_before = os.environ.get("JOSEFINE_WITH_TABLES")
    os.environ["JOSEFINE_WITH_TABLES"] = "1"
    try:
        process = BrokerProcess(tmp_path / "broker", group__initial_rebalance_delay_ms=0)
    finally:
        os.environ.pop("JOSEFINE_WITH_TABLES")
        assert env_before is None
    with process as alone:
        made(alone, "kept", location=str(lake), target__lag__ms="100")
        sent(alone, "kept", [b"a"])
        wait_until(lambda: (lake / "_delta_log").exists() and rows(lake) != [], 30, what="the row")
        bootstrap = alone.bootstrap
        alone.kill()

    wait_until(lambda: not writers_of(bootstrap), 20, what="the end of the writer")


def test_a_local_cluster_remembers_its_table_writers(tmp_path: Path) -> None:
    at = ("-d", str(tmp_path / "cluster"))
    up = ("cluster", "up", *at, "--brokers", "1")
    try:
        assert josefine("", *up, "--port", "0", "--with-tables").code == 0
        state = json.loads((tmp_path / "cluster" / "cluster.json").read_text())
        bootstrap = f"127.0.0.1:{state['brokers'][0]['port']}"
        wait_until(lambda: len(writers_of(bootstrap)) == 1, 30, what="the first writer")
        assert josefine("", "cluster", "restart", *at, "1").code == 0
        wait_until(
            lambda: len(writers_of(bootstrap)) == 1, 30, what="the restarted broker's writer"
        )

        ended = josefine("", *up, "--without-tables")
        assert ended.code == 0
        assert "broker 1 already runs" in ended.err
        assert josefine("", "cluster", "restart", *at, "1").code == 0
        assert not writers_of(bootstrap)
    finally:
        josefine("", "cluster", "down", *at)


def writers_of(bootstrap: str) -> list[str]:
    """The processes of table writers for this broker."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"tables" in words and bootstrap.encode() in words:
                found.append(path.parent.name)
    return found
