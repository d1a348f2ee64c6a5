"""Counters become Prometheus text that Prometheus's own parser reads."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from josefine_broker.host.metrics import LATENCY_BUCKETS, Metrics


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
    assert len(buckets) == LATENCY_BUCKETS
    assert read["josefine_request_seconds_bucket", (api, ("le", "+Inf"))] == 4
    assert read["josefine_request_seconds_count", (api,)] == 4
    # 1,000 ns lies in [2^9, 2^10): counted below 1,024 ns and not below 512 ns.
    assert read["josefine_request_seconds_bucket", (api, ("le", "5.12e-07"))] == 1
    assert read["josefine_request_seconds_bucket", (api, ("le", "1.024e-06"))] == 2


def test_gauges_are_read_at_the_scrape() -> None:
    metrics = Metrics()
    sizes = {"a": 1.0}
    metrics.gauge(
        "log_bytes", "Size.", lambda: [({"topic": name}, size) for name, size in sizes.items()]
    )
    metrics.gauge("nothing", "No samples yet.", list)
    sizes["b"] = 2.0
    read = samples(metrics)
    assert read["josefine_log_bytes", (("topic", "b"),)] == 2.0


def test_counters_and_connections_are_counted() -> None:
    metrics = Metrics()
    metrics.counter("log_flushes", "Flushes.", lambda: [({}, 3)])
    metrics.connections.opened += 1
    read = samples(metrics)
    assert read["josefine_log_flushes_total", ()] == 3
    assert read["josefine_connection_opened_total", ()] == 1
