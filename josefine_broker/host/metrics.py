"""The broker's counters: plain integers on the data path, rendered for Prometheus on a scrape.

No code here runs per record. A request costs two clock readings, three additions and a bit length;
only a scrape uses the Prometheus client library. Values are read on the event loop in steps,
because each partition has its own; the text, a third of a second of work for 20,000 partitions, can
be rendered on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from josefine_broker.base.quotas import KEYS
from josefine_broker.host.latencies import Latencies
from josefine_broker.host.metric_table import METRICS, Kind, Metric

SAMPLES_PER_STEP = 500
"""Values read per step: about a millisecond."""

Sample = tuple[dict[str, str], float]
SampleSource = Callable[[], Iterable[Sample]]


class ApiStats(Latencies):
    """Counters of one API key. Mutated by connections, on the event loop only."""

    __slots__ = ("errors", "name", "waited_ns")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.errors = 0
        self.waited_ns = 0
        """The part of the total that parked requests spent waiting."""


class Closings:
    """Connections that the broker closed, by reason: docs/reference/metrics.md has the
    reasons."""

    __slots__ = ("authentication", "idle", "malformed", "session", "slow", "tls", "unsupported")

    def __init__(self) -> None:
        self.authentication = 0
        self.idle = 0
        self.malformed = 0
        self.session = 0
        self.slow = 0
        self.tls = 0
        self.unsupported = 0


class ConnectionStats:
    """Counters of all connections together."""

    __slots__ = (
        "admin_refused",
        "authentication_delayed",
        "bytes_in",
        "bytes_out",
        "closed",
        "gave_way",
        "handler_failures",
        "opened",
        "reauthentications",
        "refused_address",
        "refused_full",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.opened = 0
        self.reauthentications = 0
        self.admin_refused = 0
        self.authentication_delayed = 0
        self.closed = Closings()
        self.handler_failures = 0
        self.refused_full = 0
        self.refused_address = 0
        self.gave_way = 0


class ThrottleStats:
    """Counters of one quota."""

    __slots__ = ("answers", "throttled_ms")

    def __init__(self) -> None:
        self.answers = 0
        self.throttled_ms = 0


class Metrics:
    """All counters of one broker, and the sources that others registered. Names as in the table."""

    def __init__(self) -> None:
        self.connections = ConnectionStats()
        self.throttles = {key: ThrottleStats() for key in KEYS}
        """By quota."""
        self._apis: dict[str, ApiStats] = {}
        self._latencies: dict[str, Latencies] = {}
        self._read: dict[str, SampleSource] = {}
        for name in ConnectionStats.__slots__:
            if name != "closed":
                self.one(f"connection_{name}", partial(getattr, self.connections, name))
        for reason in Closings.__slots__:
            read = partial(getattr, self.connections.closed, reason)
            self.one(f"connection_closed_{reason}", read)
        throttles = self.throttles.items()
        self.read(
            "quota_throttled", lambda: [({"quota": k}, each.answers) for k, each in throttles]
        )
        self.read(
            "quota_throttled_seconds",
            lambda: [({"quota": k}, each.throttled_ms / 1_000) for k, each in throttles],
        )

    def api(self, name: str) -> ApiStats:
        """The counter object of an API; a connection's routes hold it."""
        return self._apis.setdefault(name, ApiStats(name))

    def read(self, name: str, source: SampleSource) -> None:
        """Register `source`, read on each scrape: pairs of label values and a number."""
        assert METRICS[name].kind is not Kind.HISTOGRAM, name
        self._read[name] = source

    def one(self, name: str, source: Callable[[], float]) -> None:
        """Register a metric without labels."""
        self.read(name, lambda: [({}, source())])

    def histogram(self, name: str, latencies: Latencies) -> None:
        """Register a histogram without labels."""
        assert METRICS[name].kind is Kind.HISTOGRAM, name
        self._latencies[name] = latencies

    def scrape(self) -> Scrape:
        """A scrape to be read in steps, and then rendered as the text of `/metrics`."""
        families: list[Family] = list(self._request_families())
        for name, latencies in self._latencies.items():
            family = _histogram(METRICS[name])
            family.add_metric([], latencies.told(), latencies.sum_ns / 1e9)
            families.append(family)
        return Scrape(families, self._read)

    def _request_families(self) -> Iterator[Family]:
        seconds = _histogram(METRICS["request_seconds"])
        names = ("request_errors", "request_local_seconds", "request_waiting_seconds")
        errors, local, waiting = (_family(METRICS[name]) for name in names)
        for stats in self._apis.values():
            buckets = stats.told()
            if not buckets[-1][1] and not stats.errors:
                continue
            errors.add_metric([stats.name], stats.errors)
            local.add_metric([stats.name], (stats.sum_ns - stats.waited_ns) / 1e9)
            waiting.add_metric([stats.name], stats.waited_ns / 1e9)
            seconds.add_metric([stats.name], buckets, stats.sum_ns / 1e9)
        yield from (errors, local, waiting, seconds)


def _histogram(metric: Metric) -> HistogramMetricFamily:
    return HistogramMetricFamily(f"josefine_{metric.name}", metric.meaning, labels=metric.labels)


def _family(metric: Metric) -> CounterMetricFamily | GaugeMetricFamily:
    name, meaning, labels = f"josefine_{metric.name}", metric.meaning, metric.labels
    if metric.kind is Kind.COUNTER:
        return CounterMetricFamily(name, meaning, labels=labels)
    return GaugeMetricFamily(name, meaning, labels=labels)


class Scrape:
    """The values of (nearly) one moment."""

    def __init__(self, families: list[Family], sources: Mapping[str, SampleSource]) -> None:
        self._families = families
        self._sources = sources
        self._samples: dict[str, list[Sample]] = {}

    def steps(self) -> Iterator[None]:
        """Read everything; other work may run in between."""
        for name, source in sorted(self._sources.items()):
            samples = self._samples[name] = []
            for sample in source():
                samples.append(sample)
                if len(samples) % SAMPLES_PER_STEP == 0:
                    yield None
            yield None

    def text(self) -> bytes:
        """The rendered values; on any thread."""
        registry = CollectorRegistry()
        registry.register(_Reader(self.families))
        return generate_latest(registry)

    def families(self) -> Iterator[Family]:
        yield from self._families
        for name, samples in self._samples.items():
            metric = METRICS[name]
            family = _family(metric)
            for labels, value in samples:
                family.add_metric([labels[label] for label in metric.labels], value)
            yield family


class _Reader(Collector):
    """Adapter: the Prometheus library asks it for the families of one scrape."""

    def __init__(self, families: Callable[[], Iterable[Family]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families()
