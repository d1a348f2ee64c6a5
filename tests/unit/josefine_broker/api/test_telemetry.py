"""Clients are asked for metrics where the configuration wants them, and only there (KIP-714)."""

from __future__ import annotations

from uuid import UUID

import pytest

from josefine_broker.api import get_telemetry_subscriptions, push_telemetry
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.telemetry.client_metrics import ClientMetricsSettings
from josefine_broker.host.metrics import Metrics
from josefine_broker.observe.client_metrics import register_client_metrics
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.api.test_declined import KAFKA_4_4, listed
from tests.unit.josefine_broker.api.world import World
from tests.unit.josefine_broker.engine.telemetry.test_client_metrics import metrics

TELEMETRY = {apis.GET_TELEMETRY_SUBSCRIPTIONS: 0, apis.PUSH_TELEMETRY: 0}


def exported(asking: World, series_max: int) -> str:
    metrics = Metrics()
    register_client_metrics(metrics, asking.ctx, series_max)
    scrape = metrics.scrape()
    for _ in scrape.steps():
        pass
    return scrape.text().decode()


@pytest.fixture
def asking() -> World:
    asked = ClientMetricsSettings(prefixes=("*",), push_interval_ms=5_000)
    return World(BrokerSettings(client_metrics=asked))


def test_the_keys_are_listed_where_clients_are_asked(asking: World) -> None:
    assert listed(asking) == KAFKA_4_4 | TELEMETRY
    assert not TELEMETRY.keys() & listed(World()).keys()


def test_a_client_gets_an_id_and_its_numbers_are_exported(asking: World) -> None:
    got = asking.ask(
        apis.GET_TELEMETRY_SUBSCRIPTIONS,
        e.get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest(),
    )
    assert (got.error_code, got.push_interval_ms, got.requested_metrics) == (0, 5_000, ("",))
    assert got.client_instance_id is not None
    assert not got.delta_temporality

    push = e.push_telemetry.PushTelemetryRequest(
        client_instance_id=got.client_instance_id,
        subscription_id=got.subscription_id,
        terminating=False,
        compression_type=0,
        metrics=metrics("org.apache.kafka.producer.x", 2.5),
    )
    assert asking.ask(apis.PUSH_TELEMETRY, push).error_code is ErrorCode.none

    text = exported(asking, 10)
    assert 'metric="org.apache.kafka.producer.x"' in text
    assert f'client_instance_id="{got.client_instance_id}"' in text
    assert "josefine_client_metrics_pushes_total 1" in text

    assert "josefine_client_metric_series_omitted 1" in exported(asking, 0)


@pytest.mark.parametrize("instance", [None, UUID(int=5)])
def test_a_push_without_a_subscription_is_refused(asking: World, instance: UUID | None) -> None:
    push = e.push_telemetry.PushTelemetryRequest(
        client_instance_id=instance,
        subscription_id=1,
        terminating=False,
        compression_type=0,
        metrics=b"",
    )
    code = asking.ask(apis.PUSH_TELEMETRY, push).error_code
    unknown = ErrorCode.unknown_subscription_id
    assert code is (ErrorCode.invalid_request if instance is None else unknown)


def test_a_request_that_is_refused_as_a_whole_has_the_code() -> None:
    error = KafkaError(ErrorCode.throttling_quota_exceeded, "asked again too early")
    got = get_telemetry_subscriptions.refuse(
        e.get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest(), error
    )
    push = e.push_telemetry.PushTelemetryRequest(
        subscription_id=1, terminating=False, compression_type=0, metrics=b""
    )
    assert got.error_code is push_telemetry.refuse(push, error).error_code is error.code
