"""The metrics of a replicator as Prometheus text, with kafka-journal's names where it has them."""

from collections.abc import Collection

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Summary,
    generate_latest,
    start_http_server,
)

from josefine_journal.replicator import Round


class Metrics:
    """The metrics of all topics of one replicator."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._latency = Summary(
            "replicator_replication_latency",
            "Seconds from an action's time to its commit, of the oldest of each commit",
            ("topic",),
            registry=self.registry,
        )
        self._records = self._counter("records", "Records of the log")
        self._rows = self._counter("rows", "Stored rows")
        self._commits = self._counter("commits", "Commits of the store")
        self._dead = self._counter("dead_letters", "Records that became dead letters")
        self._lost = self._counter("lost", "Records that left the topic before they were stored")
        self._failed = self._counter(
            "failures", "Failures of a topic; each is followed by a restart"
        )
        self._lag = self._gauge("lag", "Records that are not replicated yet")
        self._stalled = self._gauge("stalled", "Partitions that an unreadable record has stopped")

    def _counter(self, name: str, meaning: str) -> Counter:
        return Counter(f"replicator_{name}", meaning, ("topic",), registry=self.registry)

    def _gauge(self, name: str, meaning: str) -> Gauge:
        return Gauge(f"replicator_{name}", meaning, ("topic",), registry=self.registry)

    def round(self, topic: str, found: Round, stalled: Collection[int], now_ms: int) -> None:
        """Count the results of a round."""
        self._lag.labels(topic).set(found.lag)
        self._stalled.labels(topic).set(len(stalled))
        self._lost.labels(topic).inc(sum(each.end - each.begin for each in found.lost))
        if not found.committed:
            return
        self._records.labels(topic).inc(found.records)
        self._rows.labels(topic).inc(found.rows)
        self._commits.labels(topic).inc()
        self._dead.labels(topic).inc(len(found.dead))
        if found.oldest_ms is not None:
            self._latency.labels(topic).observe(max(0, now_ms - found.oldest_ms) / 1_000)

    def failed(self, topic: str) -> None:
        self._failed.labels(topic).inc()

    def text(self) -> str:
        return generate_latest(self.registry).decode()

    def serve(self, port: int) -> int:
        """Serve HTTP on the loopback address, in a thread; returns the port. Raises OSError."""
        server, _ = start_http_server(port, "127.0.0.1", self.registry)
        return int(server.server_port)
