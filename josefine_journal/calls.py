"""Prometheus metrics of a process's journal calls, with kafka-journal's names where it has them,
and a warning for slow calls. They never contain an event's bytes.
"""

import logging

from prometheus_client import CollectorRegistry, Counter, Summary, generate_latest

SLOW_S = 1.0
_LOG = logging.getLogger(__name__)


class Calls:
    """Metrics of any number of topics; pass it to each `Journals`."""

    def __init__(self, registry: CollectorRegistry | None = None, slow_s: float = SLOW_S) -> None:
        """A registry accepts only one of these."""
        self.registry = registry or CollectorRegistry()
        self._slow_s = slow_s
        self._latency = Summary(
            "journal_topic_latency", "Seconds of a call", ("topic", "type"), registry=self.registry
        )
        self._results = Counter(
            "journal_results", "Calls that ended", ("topic", "type", "result"),
            registry=self.registry,
        )  # fmt: skip
        self._cache = Counter(
            "headcache_get_result",
            "Whether a reader got all from the head cache",
            ("topic", "result"),
            registry=self.registry,
        )

    def ended(self, topic: str, kind: str, seconds: float, error: BaseException | None) -> None:
        """Count a finished call."""
        self._latency.labels(topic, kind).observe(seconds)
        self._results.labels(topic, kind, "success" if error is None else "failure").inc()
        if seconds > self._slow_s:
            _LOG.warning(
                "slow call of a journal: topic=%s call=%s seconds=%.3f", topic, kind, seconds
            )

    def cached(self, topic: str, *, is_hit: bool) -> None:
        self._cache.labels(topic, "hit" if is_hit else "miss").inc()

    def text(self) -> str:
        return generate_latest(self.registry).decode()
