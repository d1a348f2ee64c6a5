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
        {"target__lag__ms": "1000", "target__file__bytes": "1048576"},
    ],
)
def test_a_table_that_the_writer_can_keep_is_accepted(configs: dict[str, str]) -> None:
    assert checked(**configs)


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({"location": "lake/orders"}, "absolute path or a URI"),
        ({"location": "/"}, "absolute path or a URI"),
        ({"dead__letter": "dead"}, "or fail"),
        ({"format": "avro"}, "does not decode avro yet; a pipeline can"),
        ({"format": "xml"}, "must be raw or json"),
        ({"mode": "upsert"}, "only appends yet"),
        ({"mode": "merge"}, "must be append"),
        ({"keys": "id"}, "is not served: the table writer only appends yet"),
        ({"local__retention__max__bytes": "1"}, "retention does not wait"),
        ({"format": "json"}, "needs 'josefine.table.schema'"),
        ({"schema": "id INT"}, "has no effect with 'josefine.table.format' raw"),
        ({"format": "json", "schema": "id"}, "found `id` without a type"),
        ({"format": "json", "schema": "id INT,"}, "found `nothing` without a type"),
        ({"format": "json", "schema": "id ARRAY<INT"}, "a bracket is not closed"),
        ({"format": "json", "schema": "id INT>"}, "closes nothing"),
        ({"location": "/t", "dead__letter": "/t"}, "choose another"),
        ({"target__lag__ms": "5"}, "must be from 100"),
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
