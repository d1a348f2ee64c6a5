"""Table topics in Avro, Protobuf and Debezium, and in mode upsert, with a real broker and registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from josefine_arrow.formats.avro.schema import parse
from josefine_arrow.formats.avro.writer import encoded
from josefine_arrow.formats.confluent.framing import framed
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer
from tests.integration.test_table_topics import made, rows, said, tables
from tests.support.fixtures import broker_fixture
from tests.support.schema_registry import serving

broker = broker_fixture(group__initial_rebalance_delay_ms=0, group__min_session_timeout_ms=500)

ORDER = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}  # fmt: skip
NEWER = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "paid", "type": "boolean", "default": False}],
}
LATEST = "{}-value/versions/latest"


def sent(broker: Any, topic: str, *records: tuple[Any, Any], partition: int = 0) -> None:
    """`records`: (key, value), JSON unless they are bytes or None."""
    with BlockingClient(broker.bootstrap) as client:
        producer = BlockingProducer(client)
        for key, value in records:
            producer.send(topic, data(key), data(value), partition=partition)
        producer.flush()


def data(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


def avro(schema: Any, number: int, value: Any) -> bytes:
    return framed(number, encoded(parse(json.dumps(schema)), value))


def once(broker: Any, topic: str, fail: str = "", code: int = 0) -> str:
    done = tables(broker, "run", "--topic", topic, "--once", fail=fail)
    assert done.code == code, done.err
    return done.err


def test_avro_in_a_registrys_frame_gets_the_columns_of_a_newer_schema(
    broker: Any, tmp_path: Path
) -> None:
    lake, old, new = tmp_path / "t", json.dumps(ORDER), json.dumps(NEWER)
    with serving({1: old, 2: new}, subjects={LATEST.format("avro"): old}) as registry:
        made(broker, "avro", location=str(lake), format="avro", schema__registry=registry.url(),
             schema__evolution="add")  # fmt: skip
        sent(broker, "avro", (None, avro(ORDER, 1, {"id": 1, "note": "a"})), (None, b"not framed"))
        once(broker, "avro")
        first = DeltaTable(str(lake)).schema().to_arrow().names
        registry.subjects[LATEST.format("avro")] = new
        sent(broker, "avro", (None, avro(ORDER, 1, {"id": 2, "note": None})),
             (None, avro(NEWER, 2, {"id": 3, "note": "c", "paid": True})))  # fmt: skip
        once(broker, "avro")

    assert first == ["id", "note", "_time", "_topic", "_partition", "_offset"]
    found = rows(lake)
    assert [(r["id"], r["note"], r["paid"], r["_offset"]) for r in found] == [
        (1, "a", None, 0), (2, None, False, 2), (3, "c", True, 3),
    ]  # fmt: skip
    (letter,) = rows(Path(f"{lake}_dead_letter"))
    assert "expected 0x00 and a schema's number" in letter["reason"]
    assert [each["end"] for each in said(lake)] == [{"avro": {"0": 2}}, {"avro": {"0": 4}}]


@pytest.mark.parametrize("place", ["before_files", "before_commit", "after_commit"])
def test_upsert_has_the_latest_row_of_each_key_and_none_of_a_deleted_one(
    broker: Any, tmp_path: Path, place: str
) -> None:
    topic, lake = f"upsert_{place}", tmp_path / "t"
    made(broker, topic, location=str(lake), format="json", mode="upsert", keys="id",
         schema="id BIGINT, name STRING, tags ARRAY<STRING>, at TIMESTAMP")  # fmt: skip
    sent(broker, topic,
         ({"id": 1}, {"id": 1, "name": "a", "tags": ["x"], "at": "2026-01-01T00:00:00Z"}),
         ({"id": 2}, {"id": 2, "name": "b"}), ({"id": 1}, {"id": 1, "name": "c", "tags": []}),
         ({"id": 3}, {"id": 3}), ({"id": 3}, None), (None, {"name": "no key"}), (None, None),
    )  # fmt: skip
    once(broker, topic, fail=place, code=-9)
    once(broker, topic)
    first = state(lake)
    sent(broker, topic, ({"id": 2}, None), ({"id": 4}, {"id": 4, "name": "d"}),
         ({"id": 1}, {"id": 1, "name": "e"}))  # fmt: skip
    once(broker, topic, fail=place, code=-9)
    once(broker, topic)
    second = state(lake)
    # A commit that changes no row has offsets all the same.
    sent(broker, topic, ({"id": 99}, None))
    once(broker, topic)
    once(broker, topic)

    assert first == [(1, "c", 2), (2, "b", 1)]
    assert second == state(lake) == [(1, "e", 9), (4, "d", 8)]
    letters = rows(Path(f"{lake}_dead_letter"))
    assert [(r["offset"], r["reason"]) for r in letters] == [
        (5, "the key column id is null"), (6, "a record without value and key deletes no row"),
    ]  # fmt: skip
    assert [each["end"][topic]["0"] for each in said(lake)] == [7, 10, 11]
    assert {(each["mode"], *each["keys"]) for each in said(lake)} == {("upsert", "id")}


def state(lake: Path) -> list[tuple[Any, ...]]:
    """(id, name, offset), sorted."""
    found = DeltaTable(str(lake)).to_pyarrow_table().to_pylist()
    return sorted((row["id"], row["name"], row["_offset"]) for row in found)


def test_debezium_changes_are_rows_in_upsert_and_a_history_in_append(
    broker: Any, tmp_path: Path
) -> None:
    now, log = tmp_path / "now", tmp_path / "log"
    how = {"format": "debezium", "schema": "id INT, name STRING"}
    made(broker, "now", location=str(now), mode="upsert", keys="id", **how)
    made(broker, "log", location=str(log), **how)
    changes = [
        ({"id": 1}, change("c", None, {"id": 1, "name": "a"})),
        ({"payload": {"id": 2}}, {"schema": {}, "payload": change("r", None, {"id": 2})}),
        ({"id": 1}, change("u", {"id": 1}, {"id": 1, "name": "b"})),
        ({"payload": {"id": 2}}, change("d", {"id": 2}, None)),
        ({"payload": {"id": 2}, "schema": {}}, None),
        (None, change("t", None, None)),
        ({"id": 1}, change("u", {"id": 1}, None)),
    ]
    for topic in ("now", "log"):
        sent(broker, topic, *changes)
        once(broker, topic)

    assert state(now) == [(1, "b", 2)]
    assert [(r["id"], r["name"], r["_op"], r["_deleted"]) for r in rows(log)] == [
        (1, "a", "c", False), (2, None, "r", False), (1, "b", "u", False), (2, None, "d", True),
    ]  # fmt: skip
    for lake in (now, log):
        letters = rows(Path(f"{lake}_dead_letter"))
        assert [(r["offset"], r["reason"]) for r in letters] == [
            (5, "op t: a truncate is of no row"), (6, "op u without `after`"),
        ]  # fmt: skip


def change(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "ts_ms": 1, "source": {"lsn": 5}}
