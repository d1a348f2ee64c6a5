"""Counters of the broker: plain integers on the data path, turned into Prometheus on a scrape.

Nothing here runs per record. A request costs two clock readings, three additions and a bit length;
the Prometheus client library is only touched by a scrape. What is to be read is read on the event
loop in steps, for each partition has its own; the text, a third of a second of work for 20,000 of
them, can be made on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

LATENCY_BUCKETS = 36
"""Powers of two of nanoseconds: the last bucket begins at 34 s, past any request's deadline."""

SAMPLES_PER_STEP = 500
"""About a millisecond."""

Sample = tuple[dict[str, str], float]
SampleSource = Callable[[], Iterable[Sample]]

_Family = type[GaugeMetricFamily] | type[CounterMetricFamily]


class ApiStats:
    """Counts of one API key. Mutated by connections, on the event loop only."""

    __slots__ = ("buckets", "errors", "name", "requests", "sum_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = 0
        self.errors = 0
        self.sum_ns = 0
        self.buckets = [0] * LATENCY_BUCKETS

    def record(self, elapsed_ns: int) -> None:
        self.requests += 1
        self.sum_ns += elapsed_ns
        bucket = elapsed_ns.bit_length()
        self.buckets[bucket if bucket < LATENCY_BUCKETS else LATENCY_BUCKETS - 1] += 1


class ConnectionStats:
    """Counts of all connections together."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "closed_authentication",
        "closed_idle",
        "closed_malformed",
        "closed_tls",
        "closed_unsupported",
        "gave_way",
        "handler_failures",
        "opened",
        "refused_address",
        "refused_full",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.opened = 0
        self.closed_authentication = 0
        self.closed_idle = 0
        self.closed_malformed = 0
        self.closed_tls = 0
        self.closed_unsupported = 0
        self.handler_failures = 0
        self.refused_full = 0
        self.refused_address = 0
        self.gave_way = 0


class Metrics:
    """All counters of one broker, and the gauges that others let it read."""

    def __init__(self) -> None:
        self.connections = ConnectionStats()
        self._apis: dict[str, ApiStats] = {}
        self._read: dict[str, tuple[_Family, str, SampleSource]] = {}

    def api(self, name: str) -> ApiStats:
        """The one counter object of an API; a connection's routes hold it."""
        return self._apis.setdefault(name, ApiStats(name))

    def gauge(self, name: str, meaning: str, source: SampleSource) -> None:
        """Register `source`, read on each scrape: (labels, value) pairs with equal labels."""
        self._read[name] = (GaugeMetricFamily, meaning, source)

    def counter(self, name: str, meaning: str, source: SampleSource) -> None:
        """The same for a value that only grows."""
        self._read[name] = (CounterMetricFamily, meaning, source)

    def scrape(self) -> Scrape:
        """To be read in steps, and then made into the text of `/metrics`."""
        return Scrape([*self.request_families(), *self.connection_families()], self._read)

    def connection_families(self) -> Iterator[Metric]:
        stats = self.connections
        for name in stats.__slots__:
            meaning = f"Connections: {name.replace('_', ' ')}."
            yield CounterMetricFamily(
                f"josefine_connection_{name}", meaning, value=getattr(stats, name)
            )

    def request_families(self) -> Iterator[Metric]:
        errors = CounterMetricFamily(
            "josefine_request_errors", "Requests refused as a whole.", labels=["api"]
        )
        seconds = HistogramMetricFamily(
            "josefine_request_seconds", "From frame to answer, waiting included.", labels=["api"]
        )
        for stats in self._apis.values():
            if not stats.requests and not stats.errors:
                continue
            errors.add_metric([stats.name], stats.errors)
            total, buckets = 0, []
            for bucket, amount in enumerate(stats.buckets):
                total += amount
                buckets.append((f"{(1 << bucket) / 1e9:.9g}", total))
            buckets[-1] = ("+Inf", total)
            seconds.add_metric([stats.name], buckets, stats.sum_ns / 1e9)
        yield errors
        yield seconds


class Scrape:
    """The values of one moment, or nearly so."""

    def __init__(
        self, families: list[Metric], sources: Mapping[str, tuple[_Family, str, SampleSource]]
    ) -> None:
        self._families = families
        self._sources = sources
        self._samples: dict[str, list[Sample]] = {}

    def steps(self) -> Iterator[None]:
        """Read everything; others may run in between."""
        for name, (_, _, source) in sorted(self._sources.items()):
            samples = self._samples[name] = []
            for sample in source():
                samples.append(sample)
                if len(samples) % SAMPLES_PER_STEP == 0:
                    yield None
            yield None

    def text(self) -> bytes:
        """Of what was read; on any thread."""
        registry = CollectorRegistry()
        registry.register(_Reader(self.families))
        return generate_latest(registry)

    def families(self) -> Iterator[Metric]:
        yield from self._families
        for name, samples in self._samples.items():
            kind, meaning, _ = self._sources[name]
            labels = list(samples[0][0]) if samples else []
            family = kind(f"josefine_{name}", meaning, labels=labels)
            for sample_labels, sample in samples:
                family.add_metric([sample_labels[label] for label in labels], sample)
            yield family


class _Reader(Collector):
    """Adapter: the Prometheus library asks it for the families of one scrape."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()
