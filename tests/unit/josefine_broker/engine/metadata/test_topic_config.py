"""Topic configurations: what is served has its effect, what is not is refused."""

from dataclasses import replace

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.image import WAS_COMPACTED
from josefine_broker.engine.metadata.inert_configs import INERT, Inert
from josefine_broker.engine.metadata.log_config import DAY_MS, LogConfig, TimestampType
from josefine_broker.engine.metadata.topic_config import (
    TOPIC_CONFIGS,
    TopicSettings,
    check_config,
    check_configs,
    described,
    resolve,
    shown,
)
from josefine_broker.records.codecs import Compression

DEFAULTS = TopicSettings()


def test_shown_defaults_are_kafkas() -> None:
    values = shown(DEFAULTS)

    assert values["retention.ms"] == str(7 * DAY_MS)
    assert values["segment.bytes"] == str(1 << 30)
    assert values["max.message.bytes"] == "1048588"
    assert values["flush.messages"] == values["flush.ms"] == str(2**63 - 1)
    assert values["cleanup.policy"] == "delete"
    assert values["message.timestamp.type"] == "CreateTime"


@pytest.mark.parametrize("key", TOPIC_CONFIGS, ids=lambda key: key.name)
def test_every_shown_value_can_be_set_again_and_changes_nothing(key: object) -> None:
    for settings in (
        DEFAULTS,
        TopicSettings(log=LogConfig(retention_ms=None, segment_records=5, flush_ms=3)),
    ):
        pairs = check_configs(shown(settings).items(), DEFAULTS)

        assert resolve(pairs, DEFAULTS) == settings


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("retention.ms", "-1", "retention_ms", None),
        ("retention.ms", "5", "retention_ms", 5),
        ("retention.bytes", "-1", "retention_bytes", None),
        ("retention.bytes", "-2", "retention_bytes", None),
        ("retention.bytes", "+7", "retention_bytes", 7),
        ("segment.bytes", "2048", "segment_bytes", 2048),
        ("segment.ms", "9", "segment_ms", 9),
        ("segment.records", "200", "segment_records", 200),
        ("index.interval.bytes", "64", "index_interval_bytes", 64),
        ("index.interval.bytes", "0", "index_interval_bytes", 0),
        ("internal.segment.bytes", "2048", "segment_bytes", 2048),
        ("internal.segment.bytes", "-7", "segment_bytes", 1024),
        ("compression.type", "gzip", "compression", Compression.GZIP),
        ("compression.type", "uncompressed", "compression", Compression.NONE),
        ("compression.type", "producer", "compression", None),
        ("compression.zstd.level", "-5", "zstd_level", -5),
        ("flush.messages", "1", "flush_messages", 1),
        ("flush.ms", "10", "flush_ms", 10),
        ("max.message.bytes", "9", "message_bytes_max", 9),
        (
            "message.timestamp.type",
            "LogAppendTime",
            "timestamp_type",
            TimestampType.LOG_APPEND_TIME,
        ),
        ("cleanup.policy", "compact, delete", "cleanup_policy", frozenset({"compact", "delete"})),
        ("cleanup.policy", "", "cleanup_policy", frozenset()),
        ("delete.retention.ms", "0", "delete_retention_ms", 0),
        ("min.cleanable.dirty.ratio", "0.01", "min_cleanable_dirty_ratio", 0.01),
        ("min.cleanable.dirty.ratio", "1.0E-4", "min_cleanable_dirty_ratio", 1e-4),
        ("min.cleanable.dirty.ratio", "NaN", "min_cleanable_dirty_ratio", 1.0),
        ("min.cleanable.dirty.ratio", "1", "min_cleanable_dirty_ratio", 1.0),
        ("min.compaction.lag.ms", "7", "min_compaction_lag_ms", 7),
        ("max.compaction.lag.ms", "7", "max_compaction_lag_ms", 7),
        ("max.compaction.lag.ms", str(2**63 - 1), "max_compaction_lag_ms", None),
    ],
)
def test_setting_reaches_the_log(name: str, value: str, field: str, expected: object) -> None:
    log = resolve(check_configs([(name, value)], DEFAULTS), DEFAULTS).log

    assert getattr(log, field) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-2"),
        ("retention.ms", "soon"),
        ("retention.ms", "1_000"),
        ("retention.ms", "1e3"),
        ("retention.ms", "9" * 30),
        ("retention.ms", None),
        ("segment.bytes", "1023"),
        ("segment.bytes", str(2**31)),
        ("cleanup.policy", "delete,"),
        ("cleanup.policy", "shred"),
        ("compression.type", "GZIP"),
        ("compression.gzip.level", "0"),
        ("message.timestamp.type", "createtime"),
        ("min.insync.replicas", "0"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "-0.1"),
        ("min.compaction.lag.ms", "-1"),
        ("max.compaction.lag.ms", "0"),
        ("compression.gzip.level", "10"),
        ("preallocate", "perhaps"),
    ],
)
def test_wrong_value_is_refused(name: str, value: str | None) -> None:
    with pytest.raises(KafkaError) as raised:
        check_config(name, value)

    assert raised.value.code is ErrorCode.invalid_config
    assert f"'{name}'" in raised.value.message


def test_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(KafkaError, match=r"nearest is 'retention\.ms'"):
        check_config("retension.ms", "1")


def test_of_a_name_given_twice_the_last_value_counts() -> None:
    """As in Kafka's CreateTopics."""
    pairs = [("retention.ms", "soon"), ("retention.ms", "2")]

    assert check_configs(pairs, DEFAULTS) == (("retention.ms", "2"),)


def test_records_that_must_be_cleaned_before_they_may_be_are_refused() -> None:
    least, most = ("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "8")

    check_configs([least], DEFAULTS)
    check_configs([most], DEFAULTS)
    with pytest.raises(KafkaError, match=r"'min\.compaction\.lag\.ms' 9 is more than") as raised:
        check_configs([least, most], DEFAULTS)

    assert raised.value.code is ErrorCode.invalid_config


def test_value_is_described_as_it_was_set_though_several_texts_have_one_effect() -> None:
    config = [
        ("retention.bytes", " -2 "),
        ("cleanup.policy", "delete , compact,delete"),
        ("min.cleanable.dirty.ratio", "1e-4"),
        ("segment.ms", "what newer code set"),
    ]

    values = described(config, DEFAULTS)

    changed = {name: text for name, text in values.items() if text != shown(DEFAULTS)[name]}
    assert changed == {
        "retention.bytes": "-2",
        "cleanup.policy": "delete,compact",
        "min.cleanable.dirty.ratio": "1.0E-4",
    }
    assert resolve(config, DEFAULTS).log.retention_bytes is None


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), (" False ", False)])
def test_unclean_elections_are_off_unless_the_topic_says_so(text: str, value: bool) -> None:
    """Booleans as Kafka reads them."""
    name = "unclean.leader.election.enable"

    assert not DEFAULTS.unclean_leader_election
    assert (
        resolve(check_configs([(name, text)], DEFAULTS), DEFAULTS).unclean_leader_election is value
    )
    with pytest.raises(KafkaError):
        check_config(name, "yes")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("retention.ms", "7d", "must be a whole number of milliseconds: 7d is 604800000"),
        ("message.timestamp.after.max.ms", "soon", "must be a whole number of milliseconds"),
        ("segment.bytes", "1GB", "must be a whole number of bytes"),
        ("min.insync.replicas", "7d", "must be a whole number"),
    ],
)
def test_refusal_of_a_number_names_its_unit(name: str, value: str, sentence: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_config(name, value)

    assert caught.value.message == f"'{name}' cannot be '{value}': {sentence}"


@pytest.mark.parametrize("pair", [("tiered.storage", "true"), ("cleanup.policy", "archive")])
def test_what_newer_code_set_has_no_effect_and_stops_nobody(pair: tuple[str, str]) -> None:
    """A rolling upgrade: the broker that was asked knows more names and values than this one."""
    settings = resolve([pair, ("retention.ms", "5")], DEFAULTS)

    assert settings == TopicSettings(log=LogConfig(retention_ms=5))


@pytest.mark.parametrize("inert", INERT, ids=[each.name for each in INERT])
def test_setting_without_effect_is_kept_and_described(inert: Inert) -> None:
    value = {"BOOLEAN": "true", "INT": "7", "LONG": "7", "LIST": "0:1,0:2"}[inert.type.name]

    settings = resolve(check_configs([(inert.name, value)], DEFAULTS), DEFAULTS)

    assert replace(settings, inert={}) == DEFAULTS
    assert shown(DEFAULTS)[inert.name] == inert.default
    assert shown(settings)[inert.name] == value
    check_config(inert.name, inert.default)


def test_topic_that_was_compacted_may_have_holes_for_good() -> None:
    """Nobody sets that but the image itself (`engine/metadata/apply.py`)."""
    settings = resolve([("cleanup.policy", "delete"), (WAS_COMPACTED, "true")], DEFAULTS)

    assert (settings.log.may_have_holes, settings.log.compacts) == (True, False)
    assert not DEFAULTS.log.may_have_holes
    assert WAS_COMPACTED not in shown(settings)
    with pytest.raises(KafkaError):
        check_config(WAS_COMPACTED, "true")
