"""Table topics in Avro, Protobuf and Debezium, and in mode upsert: a real broker and registry."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from josefine_arrow.formats.avro.schema import parse
from josefine_arrow.formats.avro.writer import encoded
from josefine_arrow.formats.confluent.framing import framed
from josefine_arrow.formats.protobuf.decoder import encoded as encoded_message
from josefine_arrow.formats.protobuf.registered import descriptors_of
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer
from tests.integration.test_table_topics import made, rows, said, tables
from tests.support.cli import josefine
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


def test_a_newer_schema_of_a_record_within_a_run_starts_the_run_again(
    broker: Any, tmp_path: Path
) -> None:
    lake, old, new = tmp_path / "t", json.dumps(ORDER), json.dumps(NEWER)

    class Registered(dict[str, Any]):
        """The newer schema is there from the second request on."""

        def get(self, key: str, default: Any = None) -> Any:
            return self.pop("first", new)

    with serving({1: old, 2: new}) as registry:
        registry.subjects = Registered(first=old)
        made(broker, "grown", location=str(lake), format="avro", schema__registry=registry.url(),
             schema__evolution="add")  # fmt: skip
        sent(broker, "grown", (None, b"bad"), (None, avro(ORDER, 1, {"id": 1, "note": "a"})),
             (None, avro(NEWER, 2, {"id": 2, "note": None, "paid": True})))  # fmt: skip
        once(broker, "grown")

    assert [(r["id"], r["paid"]) for r in rows(lake)] == [(1, False), (2, True)]
    assert len(rows(Path(f"{lake}_dead_letter"))) == 1


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


def test_avro_keys_delete_rows_of_debezium_in_avro(broker: Any, tmp_path: Path) -> None:
    lake, key = tmp_path / "t", {**ORDER, "name": "Key", "fields": ORDER["fields"][:1]}
    row = ["null", {**ORDER, "name": "Value"}]
    envelope = {"type": "record", "name": "Envelope", "fields": [
        {"name": "before", "type": row, "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ]}  # fmt: skip
    text = json.dumps(envelope)

    def value(op: str, before: Any, after: Any) -> bytes:
        return avro(envelope, 1, {"before": before, "after": after, "op": op})

    with serving({1: text, 2: json.dumps(key)}, subjects={LATEST.format("cdc"): text}) as registry:
        made(broker, "cdc", location=str(lake), format="debezium", mode="upsert", keys="id",
             schema__registry=registry.url())  # fmt: skip
        one, two = {"id": 1, "note": "a"}, {"id": 2, "note": None}
        sent(broker, "cdc", (None, value("c", None, one)), (None, value("c", None, two)),
             (None, value("u", None, {"id": 3, "note": "c"})), (None, value("d", one, None)),
             (avro(key, 2, {"id": 2}), None), (b"other", None))  # fmt: skip
        once(broker, "cdc")

    assert [(r["id"], r["note"]) for r in rows(lake)] == [(3, "c")]
    (letter,) = rows(Path(f"{lake}_dead_letter"))
    assert letter["reason"].startswith("key: begins with 0x6f")


def test_a_compacted_topic_is_a_table_of_its_bytes_with_text_keys_or_raw(
    broker: Any, tmp_path: Path
) -> None:
    raw, text = tmp_path / "raw", tmp_path / "text"
    made(broker, "raw", location=str(raw), mode="upsert", keys="key")
    made(broker, "text", location=str(text), format="json", schema="Id BIGINT, `na me` STRING",
         mode="upsert", keys="Id", key__format="text")  # fmt: skip
    sent(broker, "raw", (b"a", b"1"), (b"b", b"2"), (b"a", None), (b"b", b"3"), (None, b"4"))
    sent(broker, "text", (b"1", {"Id": 1, "na me": "a"}), (b"2", {"Id": 2}), (b"1", None),
         (b"x", None))  # fmt: skip
    for topic in ("raw", "text"):
        once(broker, topic)

    assert [(r["key"], r["value"]) for r in rows(raw)] == [(b"b", b"3")]
    assert [(r["Id"], r["na me"]) for r in rows(text)] == [(2, None)]
    assert [r["reason"] for r in rows(Path(f"{raw}_dead_letter"))] == [
        "a record without key is of no row"
    ]
    (letter,) = rows(Path(f"{text}_dead_letter"))
    assert letter["reason"].startswith("key: ")


def test_columns_are_added_if_the_topic_says_so_and_a_type_never_changes(
    broker: Any, tmp_path: Path
) -> None:
    lake = tmp_path / "t"
    made(broker, "grows", location=str(lake), format="json", mode="upsert", keys="id",
         schema="id INT, old STRING, s STRUCT<a: INT>")  # fmt: skip
    one = {"id": 1, "old": "x", "s": {"a": 1}}
    sent(broker, "grows", (None, one), (None, {**one, "id": 2}))
    once(broker, "grows")

    def altered(**configs: str) -> None:
        named = (f"josefine.table.{n.replace('__', '.')}={each}" for n, each in configs.items())
        words = [word for each in named for word in ("--config", each)]
        assert josefine(broker.bootstrap, "topics", "alter", "grows", *words).code == 0

    altered(schema="id INT, s STRUCT<a: INT, b: STRING>, more DATE")
    sent(broker, "grows", (None, {"id": 1, "s": {"a": 2, "b": "y"}, "more": "2026-01-01"}))
    refused = once(broker, "grows", code=1)
    altered(schema__evolution="add")
    once(broker, "grows")
    altered(schema="id BIGINT, s STRUCT<a: INT, b: STRING>, more DATE")
    wider = once(broker, "grows", code=1)
    altered(mode="append", keys="")
    other = once(broker, "grows", code=1)

    assert "josefine.table.schema.evolution=add" in refused
    assert "id is int, the topic has bigint (the table writer widens no type" in wider
    assert "was written with mode upsert, the topic has append" in other
    found = sorted(DeltaTable(str(lake)).to_pyarrow_table().to_pylist(), key=lambda r: r["id"])
    assert [(r["id"], r["old"], r["s"]["a"], r["s"]["b"], str(r["more"])) for r in found] == [
        (1, None, 2, "y", "2026-01-01"), (2, "x", 1, None, "None"),
    ]  # fmt: skip


def proto() -> Any:
    """A file with two messages: the registry's indexes name one of them."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    for message, fields in (("Order", ("id", "note", "at")), ("Other", ("id",))):
        made_of = file.message_type.add(name=message)
        for number, name in enumerate(fields, 1):
            kind = {"id": 3, "note": 9, "at": 11}[name]
            field = made_of.field.add(name=name, number=number, type=kind, label=1)
            if name == "at":
                field.type_name = ".google.protobuf.Timestamp"
    return file


@pytest.mark.parametrize("by_registry", [True, False])
def test_protobuf_is_read_by_the_registrys_schema_or_a_descriptor_file(
    broker: Any, tmp_path: Path, by_registry: bool
) -> None:
    topic, lake, file = f"proto_{by_registry}", tmp_path / "t", tmp_path / "o.desc"
    text = base64.b64encode(proto().SerializeToString()).decode()
    file.write_bytes(descriptors_of(text))
    answer = {"schema": text, "schemaType": "PROTOBUF"}
    order = encoded_message(
        descriptors_of(text), "shop.Order", {"id": 1, "at": "2026-01-01T00:00:00Z"}
    )
    frame = framed(1, b"\0")
    other = framed(1, b"\2\2") + b"\x08\x01"
    with serving({1: answer}, subjects={LATEST.format(topic): answer}) as registry:
        how = {"schema__registry": registry.url()} if by_registry else {
            "schema": str(file), "message": "shop.Order"
        }  # fmt: skip
        made(broker, topic, location=str(lake), format="protobuf", **how)
        values = (frame + order, other) if by_registry else (order, b"\xff")
        sent(broker, topic, *((None, value) for value in values))
        once(broker, topic)

    (row,) = rows(lake)
    assert (row["id"], row["note"], row["at"].isoformat()) == (1, "", "2026-01-01T00:00:00+00:00")
    (letter,) = rows(Path(f"{lake}_dead_letter"))
    assert letter["reason"].startswith("a shop.Other" if by_registry else "no shop.Order")


def test_a_registry_that_does_not_answer_is_one_clear_error_and_nothing_is_written(
    broker: Any, tmp_path: Path
) -> None:
    lake = tmp_path / "t"
    with serving({}) as registry:
        made(broker, "away", location=str(lake), format="avro", schema__registry=registry.url())
        none = once(broker, "away", code=1)
    sent(broker, "away", (None, b"x"))
    away = once(broker, "away", code=1)

    assert "the schema registry has no subject away-value" in none
    assert "cannot be reached" in away
    assert "Traceback" not in away
    assert not lake.exists()
