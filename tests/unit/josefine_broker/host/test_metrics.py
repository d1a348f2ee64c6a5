"""Counters become Prometheus text that Prometheus's own parser reads."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from josefine_broker.host.latencies import FIRST_TOLD, LATENCY_BUCKETS
from josefine_broker.host.metrics import Metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    scrape = metrics.scrape()
    for _ in scrape.steps():
        pass
    text = scrape.text().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_request_latency_is_a_cumulative_histogram() -> None:
    metrics = Metrics()
    produce = metrics.api("Produce")
    for elapsed_ns in (0, 1_000, 1_000_000, 10**15):
        produce.record(elapsed_ns)
    read = samples(metrics)
    api = ("api", "Produce")
    buckets = [
        value
        for (name, labels), value in read.items()
        if name == "josefine_request_seconds_bucket" and api in labels
    ]
    assert buckets == sorted(buckets)
    assert len(buckets) == LATENCY_BUCKETS - FIRST_TOLD
    assert read["josefine_request_seconds_bucket", (api, ("le", "+Inf"))] == 4
    assert read["josefine_request_seconds_count", (api,)] == 4
    # 1 ms lies in [2^19, 2^20) ns: counted below 1.05 ms and not below 0.52 ms.
    assert read["josefine_request_seconds_bucket", (api, ("le", "1.6384e-05"))] == 2
    assert read["josefine_request_seconds_bucket", (api, ("le", "0.000524288"))] == 2
    assert read["josefine_request_seconds_bucket", (api, ("le", "0.001048576"))] == 3


def test_time_of_a_request_is_told_apart_into_work_and_waiting() -> None:
    metrics = Metrics()
    fetch = metrics.api("Fetch")
    fetch.record(3_000_000_000)
    fetch.waited_ns += 2_000_000_000
    read = samples(metrics)
    api = ("api", "Fetch")
    assert read["josefine_request_local_seconds_total", (api,)] == 1
    assert read["josefine_request_waiting_seconds_total", (api,)] == 2


def test_gauges_are_read_at_the_scrape() -> None:
    metrics = Metrics()
    traffic = {"a": 1.0}
    metrics.read(
        "topic_bytes_in", lambda: [({"topic": name}, size) for name, size in traffic.items()]
    )
    metrics.read("group_members", list)
    traffic["b"] = 2.0
    read = samples(metrics)
    assert read["josefine_topic_bytes_in_total", (("topic", "b"),)] == 2.0


def test_counters_and_connections_are_counted() -> None:
    metrics = Metrics()
    metrics.one("accept_pauses", lambda: 3)
    metrics.connections.opened += 1
    read = samples(metrics)
    assert read["josefine_accept_pauses_total", ()] == 3
    assert read["josefine_connection_opened_total", ()] == 1


def test_metric_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(KeyError):
        Metrics().one("surprise", lambda: 1)
