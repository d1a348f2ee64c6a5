"""The configs of table topics: what is accepted, what is refused and how the refusal reads."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.table_configs import TABLE_KEYS
from josefine_broker.engine.metadata.topic_config import (
    TopicSettings,
    check_configs,
    described,
    resolve,
)

PREFIX = "josefine.table."


def checked(**configs: str) -> tuple[tuple[str, str], ...]:
    pairs = [(PREFIX + name.replace("__", "."), value) for name, value in configs.items()]
    return check_configs(pairs, TopicSettings())


@pytest.mark.parametrize(
    "configs",
    [
        {"location": "/lake/orders"},
        {"location": "s3://lake/orders", "dead__letter": "fail"},
        {"location": "/lake/o", "format": "json", "schema": "id BIGINT, t ARRAY<STRUCT<a: INT>>"},
        {"location": "/lake/o", "format": "json", "schema": "amount DECIMAL(10, 2)"},
        {"location": ""},
        {"format": "avro", "schema": '{"type": "record"}', "schema__evolution": "add"},
        {"format": "avro", "schema": "/schemas/order.avsc", "schema__registry": "http://r:8081"},
        {"format": "avro", "schema__registry": "https://registry/api/", "key__format": "json"},
        {"format": "protobuf", "schema": "/schemas/o.desc", "message": "shop.Order"},
        {"format": "protobuf", "schema__registry": "http://r:8081"},
        {"format": "debezium", "schema": "id INT", "mode": "upsert", "keys": "id, region"},
        {"format": "debezium", "schema__registry": "http://r:8081", "mode": "upsert", "keys": "id"},
        {"mode": "upsert", "keys": "key"},
        {"target__lag__ms": "1000", "target__file__bytes": "1048576"},
        {"deleted__file__retention__ms": "-1"},
        {"deleted__file__retention__ms": "604800000"},
    ],
)
def test_a_table_that_the_writer_can_keep_is_accepted(configs: dict[str, str]) -> None:
    assert checked(**configs)


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({"location": "lake/orders"}, "absolute path or a URI"),
        ({"location": "/"}, "absolute path or a URI"),
        ({"location": "s3://KEY:secret@lake/orders"}, "it has a user, whose keys belong into"),
        ({"location": "gs://lake/orders"}, "table.location' is in gs://, and table writers write"),
        ({"location": "/a", "dead__letter": "abfss://c@a/dead"}, "dead.letter' is in abfss://"),
        ({"dead__letter": "dead"}, "or fail"),
        ({"format": "avro"}, "avro needs 'josefine.table.schema' or 'josefine.table.schema.reg"),
        ({"format": "avro", "schema": "id INT"}, "is an Avro schema or the path of an .avsc"),
        ({"format": "avro", "schema": "{"}, "the Avro schema is not JSON"),
        ({"format": "avro", "schema": '{"a":' * 5_000}, "types within types too deeply"),
        ({"format": "avro", "schema": "order.avsc"}, "must be an absolute path"),
        ({"format": "json", "schema": "/a.avsc"}, "is columns, as in"),
        ({"format": "json", "schema": "id INT", "schema__registry": "http://r"}, "has no effect"),
        ({"format": "protobuf", "schema": "/a.avsc", "message": "m"}, "path of a .desc file"),
        ({"format": "protobuf", "schema": "/a.desc"}, "'josefine.table.message' is needed"),
        ({"format": "avro", "schema": "{}", "message": "m"}, "'josefine.table.message' has no"),
        ({"format": "debezium"}, "debezium needs"),
        ({"format": "debezium", "schema": "id INT", "schema__registry": "http://r"}, "is of JSON"),
        ({"schema__registry": "http://me:secret@r"}, "must have no user: set it as JOSEFINE_"),
        ({"schema__registry": "registry:8081"}, "must be an address such as"),
        ({"schema__evolution": "widen"}, "must be none or add: the table writer widens no type"),
        ({"format": "xml"}, "must be raw or json or avro"),
        ({"mode": "merge"}, "must be append or upsert"),
        ({"mode": "upsert"}, "needs 'josefine.table.keys'"),
        ({"keys": "id"}, "has no effect without 'josefine.table.mode' upsert"),
        ({"mode": "upsert", "keys": "id,,a"}, "one without a name"),
        ({"mode": "upsert", "keys": "id,id"}, "must name each column once"),
        ({"mode": "upsert", "keys": "id"}, "raw is key"),
        ({"mode": "upsert", "keys": "key", "key__format": "avro"}, "avro needs"),
        (
            {
                "format": "json",
                "schema": "a INT, b INT",
                "mode": "upsert",
                "keys": "a,b",
                "key__format": "text",
            },
            "text is for one column",
        ),
        ({"local__retention__max__bytes": "1"}, "retention waits without a bound"),
        ({"format": "json"}, "needs 'josefine.table.schema'"),
        ({"schema": "id INT"}, "has no effect with 'josefine.table.format' raw"),
        ({"format": "json", "schema": "id"}, "found `id` without a type"),
        ({"format": "json", "schema": "id INT,"}, "found `nothing` without a type"),
        ({"format": "json", "schema": "id ARRAY<INT"}, "a bracket is not closed"),
        ({"format": "json", "schema": "id INT>"}, "closes nothing"),
        ({"location": "/t", "dead__letter": "/t"}, "choose another"),
        ({"target__lag__ms": "5"}, "must be from 100"),
        ({"deleted__file__retention__ms": "604799999"}, "must be -1 or at least 604800000"),
        ({"deleted__file__retention__ms": "-2"}, "must be -1 or at least 604800000"),
    ],
)
def test_what_the_writer_cannot_keep_is_refused_with_the_reason(
    configs: dict[str, str], why: str
) -> None:
    with pytest.raises(KafkaError, match=why) as error:
        checked(**configs)

    assert error.value.code is ErrorCode.invalid_config


def test_a_table_topics_configs_are_described_as_they_were_set() -> None:
    config = checked(location="/lake/orders", target__lag__ms="1000")

    shown = described(config, TopicSettings())

    assert shown[PREFIX + "location"] == "/lake/orders"
    assert shown[PREFIX + "target.lag.ms"] == "1000"
    assert shown[PREFIX + "format"] == "raw"
    assert {key.name for key in TABLE_KEYS} <= shown.keys()
    assert resolve(config, TopicSettings()).table.target_lag_ms == 1_000


def test_a_place_that_no_writer_writes_is_kept_where_an_earlier_version_took_it() -> None:
    """So the table is shown as stopped, and does not vanish."""
    config = [(PREFIX + "location", "gs://lake/orders")]

    assert resolve(config, TopicSettings()).table.location == "gs://lake/orders"
    assert described(config, TopicSettings())[PREFIX + "location"] == "gs://lake/orders"
