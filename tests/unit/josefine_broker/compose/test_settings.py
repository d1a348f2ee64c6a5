"""Configuration arrives where it is used, and clients are told an address they can dial."""

from __future__ import annotations

import socket

import pytest

from josefine_broker.api.shared.broker_configs import BROKER_CONFIGS
from josefine_broker.compose.settings import (
    broker_settings,
    connection_limits,
    controller_config,
    engine_config,
    initial_voters,
    listeners_apart,
    named_but_loopback,
    raft_address,
    registration,
    slow_validation,
    text_settings,
)
from josefine_broker.config.broker_config import load_config
from josefine_broker.config.sections import TEXT_LISTENER, TextSection
from josefine_broker.engine.groups.values import GroupSettings
from josefine_broker.engine.metadata.features import SUPPORTED
from josefine_broker.engine.metadata.image import Endpoint
from josefine_broker.engine.metadata.log_config import LogConfig, TimestampType
from josefine_broker.engine.metadata.topic_config import COMPRESSIONS
from josefine_broker.engine.transactions.values import TransactionSettings
from josefine_broker.host.net.server import Bound
from josefine_broker.text import front
from josefine_broker.text.front import TextSettings


def test_defaults_of_the_configuration_are_those_of_the_core() -> None:
    """Two places name Kafka's defaults; they must not drift apart."""
    settings = broker_settings(load_config(None, {}))
    assert settings.topic_defaults.log == LogConfig()


def test_every_log_key_arrives() -> None:
    values = {
        "segment_bytes": 2_000,
        "segment_ms": 6,
        "segment_records": 7,
        "index_interval_bytes": 8,
        "message_bytes_max": 9,
        "retention_ms": 10,
        "retention_bytes": 11,
        "flush_messages": 12,
        "flush_ms": 13,
        "timestamp_type": "LogAppendTime",
    }
    config = load_config(None, {}, {f"log.{key}": value for key, value in values.items()})
    log = broker_settings(config).topic_defaults.log
    assert log.validates_records
    assert log == LogConfig(**{**values, "timestamp_type": TimestampType.LOG_APPEND_TIME})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_every_compression_arrives(name: str) -> None:
    config = load_config(None, {}, {"log.compression_type": name})

    assert broker_settings(config).topic_defaults.log.compression == COMPRESSIONS[name]


def test_records_are_validated_unless_the_file_says_headers() -> None:
    config = load_config(None, {}, {"log.validate_records": "headers"})

    assert not broker_settings(config).topic_defaults.log.validates_records


def test_a_platform_without_the_compiled_check_is_warned_of_what_that_costs() -> None:
    full = load_config(None, {}, {})
    headers = load_config(None, {}, {"log.validate_records": "headers"})

    (warning,) = slow_validation(full, is_compiled=False)

    assert "log.validate_records" in warning
    assert slow_validation(full, is_compiled=True) == []
    assert slow_validation(headers, is_compiled=False) == []


def test_what_the_host_knows_is_described_under_kafkas_names() -> None:
    overrides: dict[str, object] = {
        "broker.listeners": ["IN://127.0.0.1:9092", "SSL://127.0.0.1:9094"],
        "network.idle_timeout_ms": 5_000,
        "network.connections_per_address_max": None,
        "tls.certificate": "c.pem",
    }
    found = broker_settings(load_config(None, {}, overrides)).host_configs

    assert found["listeners"] == "IN://127.0.0.1:9092,SSL://127.0.0.1:9094"
    assert found["listener.security.protocol.map"] == "IN:PLAINTEXT,SSL:SSL"
    assert found["connections.max.idle.ms"] == "5000"
    assert "max.connections.per.ip" not in found
    assert set(found) < {row.name for row in BROKER_CONFIGS}, "each has its row"


def test_coordinators_topics_are_synced_unless_the_file_says_otherwise() -> None:
    settings = broker_settings(load_config(None, {}, {}))
    assert settings.defaults_of("__consumer_offsets").log.flush_messages == 1
    assert settings.defaults_of("__transaction_state").log.flush_messages == 1
    assert settings.defaults_of("orders").log.flush_messages is None

    settings = broker_settings(load_config(None, {}, {"log.flush_internal_topics": False}))
    assert settings.defaults_of("__consumer_offsets").log.flush_messages is None


def test_topic_defaults_and_limits_arrive() -> None:
    overrides: dict[str, object] = {
        "broker.auto_create_topics": False,
        "topic_defaults.partitions": 3,
        "topic_defaults.replication_factor": 2,
        "topic_defaults.min_insync_replicas": 2,
        "topic_defaults.unclean_leader_election_enable": True,
        "network.frame_bytes_max": 4_096,
        "network.in_flight_max": 5,
        "network.write_buffer_bytes": 6,
        "network.send_buffer_bytes": 7,
    }
    config = load_config(None, {}, overrides)
    settings, limits = broker_settings(config), connection_limits(config)
    assert settings.auto_create_topics is False
    assert (settings.default_partitions, settings.default_replication_factor) == (3, 2)
    assert settings.topic_defaults.min_insync_replicas == 2
    assert settings.topic_defaults.unclean_leader_election
    assert (limits.frame_bytes_max, limits.in_flight_max, limits.write_buffer_bytes) == (4096, 5, 6)
    assert limits.send_buffer_bytes == 7


def test_every_key_of_groups_arrives() -> None:
    overrides: dict[str, object] = {
        "group.initial_rebalance_delay_ms": 0,
        "group.min_session_timeout_ms": 7,
        "group.max_session_timeout_ms": 8,
        "group.max_size": 9,
        "offsets.retention_ms": 10,
    }

    groups = broker_settings(load_config(None, {}, overrides)).offsets.groups

    assert groups == GroupSettings(
        initial_rebalance_delay_ms=0,
        session_timeout_min_ms=7,
        session_timeout_max_ms=8,
        size_max=9,
        offsets_retention_ms=10,
    )
    assert broker_settings(load_config(None, {})).offsets.groups == GroupSettings()


def test_every_key_of_transactions_arrives() -> None:
    overrides: dict[str, object] = {
        "transactions.max_timeout_ms": 7_000,
        "transactions.id_expiration_ms": 8_000,
        "transactions.two_phase_commit_enable": True,
        "transactions.two_phase_commit_timeout_max_ms": 9_000,
    }

    found = broker_settings(load_config(None, {}, overrides)).offsets.transactions

    assert found == TransactionSettings(
        timeout_max_ms=7_000,
        id_expiration_ms=8_000,
        two_phase_enable=True,
        two_phase_timeout_max_ms=9_000,
    )
    plain = broker_settings(load_config(None, {})).offsets.transactions
    assert plain == TransactionSettings()


def test_defaults_of_the_text_protocol_are_those_of_its_commands() -> None:
    assert text_settings(load_config(None, {})) == TextSettings()


def test_every_key_of_the_text_protocol_arrives() -> None:
    values: dict[str, object] = {
        "acks": "1",
        "strict": True,
        "line_bytes_max": 2_000,
        "reply_bytes_max": 3_000,
        "reply_records_max": 4,
        "subscriptions_max": 5,
        "session_timeout_ms": 6,
        "timeout_ms": 7,
    }

    settings = text_settings(load_config(None, {}, {f"text.{k}": v for k, v in values.items()}))

    assert settings == TextSettings(
        acks=1,
        is_strict=True,
        line_bytes_max=2_000,
        reply_bytes_max=3_000,
        reply_records_max=4,
        subscriptions_max=5,
        session_timeout_ms=6,
        timeout_ms=7,
    )
    assert {*values, "host", "port", "tls"} == set(TextSection.model_fields)


@pytest.mark.parametrize("unclean", [True, False])
def test_controller_elects_by_the_defaults_of_topics(unclean: bool) -> None:
    key = "topic_defaults.unclean_leader_election_enable"
    overrides: dict[str, object] = {"topic_defaults.min_insync_replicas": 2}
    if unclean:
        overrides[key] = True

    config = controller_config(load_config(None, {}, overrides))

    assert (config.min_insync_replicas, config.unclean_leader_election) == (2, unclean)


def test_a_listener_advertises_what_is_configured_else_what_is_bound() -> None:
    with socket.socket() as unused:
        bound = [
            Bound("IN", "10.0.0.1", 1111, unused),
            Bound("OUT", "0.0.0.0", 2222, unused),
            Bound("ANY", "::", 3333, unused),
        ]
        overrides: dict[str, object] = {
            "broker.id": 4,
            "broker.rack": "r1",
            "broker.listeners": [f"{each.name}://{each.host}:{each.port}" for each in bound[:2]],
            "broker.advertised_listeners": ["OUT://broker.example:9"],
        }
        config = load_config(None, {}, overrides)
        entry = registration(config, bound, "this-host", "http://a:1", "life")
    assert (entry.broker_id, entry.rack, entry.admin) == (4, "r1", "http://a:1")
    assert entry.incarnation == "life"
    assert entry.features == SUPPORTED
    assert entry.endpoints == (
        Endpoint("IN", "10.0.0.1", 1111),
        Endpoint("OUT", "broker.example", 9),
        Endpoint("ANY", "this-host", 3333),
    )


def test_brokers_dial_what_is_advertised_else_the_voters_line_else_what_is_bound() -> None:
    overrides: dict[str, object] = {"broker.id": 1, "raft.listener": "0.0.0.0:8"}
    with socket.socket() as unused:
        anywhere, here = Bound("raft", "0.0.0.0", 7, unused), Bound("raft", "10.0.0.1", 7, unused)

        def address(bound: Bound, **more: object) -> str:
            raft = {f"raft.{key}": value for key, value in more.items()}
            return str(raft_address(load_config(None, {}, overrides | raft), bound, "this-host"))

        voters = ["1@voter:8", "2@other:8", "3@third:8"]
        assert address(anywhere) == "this-host:7"
        assert address(here) == "10.0.0.1:7"
        assert address(here, voters=voters) == "voter:8"
        assert address(here, voters=voters, advertised="told:9") == "told:9"


def test_a_cluster_begins_with_the_configured_voters_or_alone_or_is_joined() -> None:
    def voters(**raft: object) -> list[int]:
        values = {f"raft.{key}": value for key, value in raft.items()}
        return initial_voters(
            load_config(None, {}, {"broker.id": 4, "raft.listener": "0.0.0.0:1"} | values)
        )

    assert voters() == [4]
    assert voters(voters=["4@a:1", "5@b:1", "6@c:1"]) == [4, 5, 6]
    assert voters(seeds=["a:1"]) == []


@pytest.mark.parametrize(
    ("host", "voter", "is_told"),
    [("host1", "host2", True), ("host1", "localhost", False), ("127.0.0.1", "host2", False)],
)
def test_name_that_means_a_loopback_address_here_is_told(
    host: str, voter: str, is_told: bool
) -> None:
    """Some systems write the machine's own name with 127.0.1.1 into /etc/hosts."""
    voters = ["1@host1:9093", f"2@{voter}:9093"]
    config = load_config(None, {}, {"broker.id": 1, "raft.voters": voters})
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        found = named_but_loopback([Bound("raft", host, 9093, bound)], config)

    assert bool(found) == is_told


def test_text_listener_has_one_name() -> None:
    assert front.TEXT_LISTENER == TEXT_LISTENER


def test_no_broker_comes_where_sasl_asks_for_a_name_or_beside_the_brokers_own_listener() -> None:
    def apart(own: str | None) -> frozenset[str]:
        overrides: dict[str, object] = {
            "broker.listeners": ["A://a:1", "B://a:2", "SASL_PLAINTEXT://a:3"],
            "broker.inter_broker_listener": own,
            "sasl.users": "u",
        }
        config = load_config(None, {}, overrides)
        with socket.socket() as unused:
            made = engine_config(config, "", "c", Bound("raft", "127.0.0.1", 1, unused), "here")
        assert made.listeners_apart == listeners_apart(config)
        return made.listeners_apart

    assert apart(None) == {"SASL_PLAINTEXT"}
    assert apart("B") == {"A", "SASL_PLAINTEXT"}
    assert listeners_apart(load_config(None, {})) == frozenset()
