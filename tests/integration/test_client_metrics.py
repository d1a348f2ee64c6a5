"""librdkafka pushes its metrics to a broker that asks for them, and /metrics has them (KIP-714)."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until


def test_a_producer_of_librdkafka_is_seen_in_the_metrics(tmp_path: Path) -> None:
    overrides = {"telemetry__client_metrics": ["*"], "telemetry__client_push_interval_ms": 200}
    with BrokerProcess(tmp_path, **overrides) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "shop"})

        def has_numbers() -> bool:
            producer.produce("orders", b"x")
            producer.flush(10)
            status, text = broker.get("/metrics")
            assert status == 200
            named = {
                sample.labels["metric"]
                for family in text_string_to_metric_families(text)
                for sample in family.samples
                if sample.name == "josefine_client_metric" and sample.labels["client_id"] == "shop"
            }
            return any(name.startswith("org.apache.kafka.producer.") for name in named)

        wait_until(has_numbers, timeout_s=60, what="numbers of the producer")
