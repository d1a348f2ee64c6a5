"""The configs of an archived topic: Kafka's rules, and what an archive cannot serve."""

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.archive_configs import archive_contradiction
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.metadata.topic_config import (
    TopicSettings,
    check_configs,
    described,
    resolve,
)

DEFAULTS = TopicSettings()
ARCHIVED = {
    "remote.storage.enable": "true",
    "josefine.archive.location": "/lake/orders",
    "retention.ms": "-1",
}


def bounds(**more: str) -> tuple[int | None, int | None]:
    configs = {**ARCHIVED, **{name.replace("__", "."): each for name, each in more.items()}}
    log = resolve(check_configs(configs.items(), DEFAULTS), DEFAULTS).log
    return log.age_max_ms, log.size_max_bytes


def test_local_bounds_are_those_of_the_log() -> None:
    assert bounds() == (None, None)
    assert bounds(local__retention__ms="5", local__retention__bytes="7") == (5, 7)
    assert bounds(retention__ms="9", local__retention__ms="5") == (5, None)
    assert bounds(retention__ms="9") == (9, None)
    assert bounds(local__retention__ms="-2", local__retention__bytes="-1") == (None, None)


def test_default_that_came_later_does_not_compact_what_no_archive_has() -> None:
    """The topic's own configs were right when they were set; nothing checks them again."""
    log = LogConfig(cleanup_policy=("compact",))

    assert resolve([], TopicSettings(log=log)).log.compacts
    archived = resolve(ARCHIVED.items(), TopicSettings(log=log)).log
    assert (archived.compacts, archived.age_max_ms, archived.size_max_bytes) == (False, None, None)


def test_without_an_archive_local_bounds_have_no_effect() -> None:
    """As in Kafka, which accepts even those that exceed the whole."""
    log = resolve([("local.retention.ms", "9"), ("retention.ms", "5")], DEFAULTS).log

    assert log.age_max_ms == 5


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"josefine.archive.location": ""}, "needs 'josefine.archive.location'"),
        ({"josefine.archive.location": "lake"}, "must be an absolute path"),
        ({"josefine.archive.location": "gs://lake/a"}, "'josefine.archive.location' is in gs://"),
        ({"josefine.table.location": "/lake/orders"}, "has its own table"),
        ({"cleanup.policy": "compact"}, "unsupported for compacted topics"),
        ({"cleanup.policy": "compact,delete"}, "unsupported for compacted topics"),
        ({"cleanup.policy": ""}, "needs 'cleanup.policy' delete"),
        ({"retention.ms": "5", "local.retention.ms": "6"}, r"'local.retention.ms' 6 is more"),
        ({"retention.ms": "5", "local.retention.ms": "-1"}, "must not be -1"),
        ({"retention.bytes": "5", "local.retention.bytes": "6"}, "'local.retention.bytes' 6"),
        ({"retention.bytes": "5", "local.retention.bytes": "-1"}, "must not be -1"),
        ({"local.retention.ms": "-3"}, "local.retention.ms"),
        ({"remote.log.copy.disable": "true"}, "'remote.log.copy.disable' true is not served"),
        ({"remote.log.delete.on.disable": "true"}, "no broker deletes it"),
    ],
)
def test_what_contradicts_an_archive_is_refused(changed: dict[str, str], why: str) -> None:
    with pytest.raises(KafkaError, match=why) as error:
        check_configs({**ARCHIVED, **changed}.items(), DEFAULTS)

    assert error.value.code is ErrorCode.invalid_config


def test_nothing_is_wrong_without_an_archive() -> None:
    log = LogConfig(cleanup_policy=frozenset({"compact"}), local_retention_ms=-1)

    assert not archive_contradiction(log, {"remote.log.copy.disable": "true"}, "/lake/orders")


def test_the_whole_may_have_a_bound_in_bytes() -> None:
    """The archive's writer deletes by it; brokers only have the local bound."""
    log = resolve([*ARCHIVED.items(), ("retention.bytes", "5")], DEFAULTS).log

    assert (log.retention_bytes, log.size_max_bytes) == (5, 5)


def test_configs_are_described_as_they_were_set() -> None:
    found = described([*ARCHIVED.items(), ("local.retention.ms", "5")], DEFAULTS)

    assert found["remote.storage.enable"] == "true"
    assert (found["local.retention.ms"], found["local.retention.bytes"]) == ("5", "-2")
