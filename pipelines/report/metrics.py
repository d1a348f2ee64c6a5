"""Prometheus metrics of a run: a reporter that counts, and an HTTP listener.

Counters start at 0 with the run's process. A scrape costs one call to Spark and one fetch of a
record batch per partition for each sink. A failed scrape never fails the run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    start_http_server,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from josefine_broker.base.addresses import HostPort
from josefine_broker.host.metric_table import Kind
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.base.errors import SetupError
from pipelines.model.pipeline import Pipeline
from pipelines.model.plan import compile_plan
from pipelines.model.retry_policy import Retry
from pipelines.report.events import BatchDone, Both, LagMs, Reporter
from pipelines.report.metric_table import METRICS
from pipelines.report.progress_table import ProgressTable
from pipelines.storage.folders import Folders, why_left

BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""Buckets in seconds: a batch takes at least a few tenths, and minutes with a large MERGE."""
OF_PARTITIONS = ("pipeline_committed_offset", "pipeline_lag")
AGE = "pipeline_lag_seconds"
AT_SCRAPE = (*OF_PARTITIONS, AGE)
"""The gauges that are computed at each scrape."""


class _Registry(CollectorRegistry):
    """A registry without the library's `_created` series."""

    def collect(self) -> Iterable[Family]:
        for family in super().collect():
            family.samples = [s for s in family.samples if not s.name.endswith("_created")]
            yield family


class Metrics(Reporter, Collector):
    """The reporter of one run. Mutable: the counters, each sink's offsets, and the function that
    returns the end offsets of its topics."""

    def __init__(self, pipeline: Pipeline, now_s: Callable[[], float] = time.time) -> None:
        self.registry = _Registry()
        self._pipeline = pipeline
        self._now_s = now_s
        self._reached: dict[str, ByPartition] = {}
        self._latest: dict[str, Callable[[], ByPartition]] = {}
        self._lag_ms: dict[str, LagMs] = {}
        self._made: dict[str, Any] = {
            name: self._make(name) for name in METRICS if name not in AT_SCRAPE
        }
        self.registry.register(self)
        counters = [m.name for m in METRICS.values() if m.kind is Kind.COUNTER]
        plan = compile_plan(pipeline)
        for sink in pipeline.sinks.values():
            if sink.fresh_ms is not None:
                self._of("pipeline_fresh_seconds", sink.name).set(sink.fresh_ms / 1000)
            for name in counters:
                if "check" not in METRICS[name].labels:
                    self._of(name, sink.name)
            for check in plan.sinks[sink.name].checks:
                self._of("pipeline_check_failed_rows", sink.name, check.name)

    def _make(self, name: str) -> Any:
        metric = METRICS[name]
        said = (f"josefine_{name}", metric.meaning, metric.labels)
        if metric.kind is Kind.HISTOGRAM:
            return Histogram(*said, registry=self.registry, buckets=BUCKETS_S)
        kind = Counter if metric.kind is Kind.COUNTER else Gauge
        return kind(*said, registry=self.registry)

    def _of(self, name: str, *labels: str) -> Any:
        return self._made[name].labels(self._pipeline.name, *labels)

    # -- a reporter's -------------------------------------------------------------------------

    def begun(self, sink: str, records_to_do: int | None) -> None:
        self._of("pipeline_failed", sink).set(0)

    def watched(
        self,
        sink: str,
        begins: ByPartition | None,
        latest: Callable[[], ByPartition],
        lag_ms: LagMs | None = None,
    ) -> None:
        if begins is not None:
            self._reached[sink] = begins
        self._latest[sink] = latest
        if lag_ms is not None:
            self._lag_ms[sink] = lag_ms

    def batch(self, done: BatchDone) -> None:
        sink = done.sink
        self._reached[sink] = done.ends
        self._of("pipeline_dead_letters", sink).inc(done.dead_letters)
        self._of("pipeline_late", sink).inc(done.late)
        if done.already_there:
            self._of("pipeline_batches_there", sink).inc()
            return
        self._of("pipeline_batches", sink).inc()
        self._of("pipeline_records", sink).inc(done.records)
        self._of("pipeline_rows", sink).inc(done.rows)
        self._of("pipeline_copies", sink).inc(done.copies)
        self._of("pipeline_skipped", sink).inc(done.skipped)
        self._of("pipeline_batch_seconds", sink).observe(done.seconds)
        self._of("pipeline_commit_version", sink).set(done.version)
        self._of("pipeline_commit_timestamp_seconds", sink).set(self._now_s())
        for name, checked in done.checked.items():
            self._of("pipeline_check_failed_rows", sink, name).inc(checked.failed)

    def retrying(self, sink: str, batch: int, retry: Retry) -> None:
        self._of("pipeline_commit_retries", sink).inc()

    def restarting(self, sink: str, retry: Retry) -> None:
        self._of("pipeline_restarts", sink).inc()

    def failed(self, sink: str, line: str, left: int) -> None:
        self._of("pipeline_failed", sink).set(1)

    def upkeep_failed(self, sink: str, line: str) -> None:
        self._of("pipeline_upkeep_failures", sink).inc()

    # -- a scrape's ---------------------------------------------------------------------------

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The current gauges of partitions, and the age of each sink's lag."""
        reached, lag = map(_family, OF_PARTITIONS)
        for sink, ends in dict(self._reached).items():
            for (topic, partition), end in ends.items():
                reached.add_metric((self._pipeline.name, sink, topic, str(partition)), end)
        for sink, ask in dict(self._latest).items():
            at = self._reached.get(sink)
            if at is None:
                continue
            for where, end in _asked(ask).items():
                topic, partition = where
                behind = max(0, end - at.get(where, 0))
                lag.add_metric((self._pipeline.name, sink, topic, str(partition)), behind)
        return [reached, lag, self._ages()]

    def _ages(self) -> GaugeMetricFamily:
        ages = _family(AGE)
        for sink, lag_ms in dict(self._lag_ms).items():
            if (ends := self._reached.get(sink)) is None:
                continue
            try:
                found = lag_ms(ends)
            except Exception:
                # Brokers are away: waiting for them once per sink would end the whole scrape.
                break
            if found is not None:
                ages.add_metric((self._pipeline.name, sink), found / 1000)
        return ages

    def text(self) -> str:
        return generate_latest(self.registry).decode()

    @contextmanager
    def served(self, at: HostPort) -> Iterator[int]:
        """Serve the metrics over HTTP on its own threads; yields the port. Raises SetupError."""
        try:
            server, thread = start_http_server(at.port, at.host, self.registry)
        except OSError as error:
            reason = error.strerror or error
            message = f"metrics.prometheus: {at} cannot be listened on: {reason}"
            raise SetupError(message) from error
        try:
            yield int(server.server_port)
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


@contextmanager
def told(pipeline: Pipeline, reporter: Reporter) -> Iterator[Reporter]:
    """The reporter, combined with metrics if the file enables them. Raises SetupError."""
    with ExitStack() as stack:
        shown = reporter
        if pipeline.metrics is not None:
            metrics = Metrics(pipeline)
            stack.enter_context(metrics.served(pipeline.metrics))
            reporter = Both(reporter, metrics)
        if pipeline.metrics_table is not None:
            path, secrets = pipeline.metrics_table, pipeline.secrets
            options = _storage_options(pipeline, path)
            table = ProgressTable(pipeline.name, path, shown, secrets=secrets, options=options)
            reporter = Both(reporter, stack.enter_context(table))
        yield reporter


def _storage_options(pipeline: Pipeline, path: str) -> Mapping[str, str]:
    """For delta-rs; empty on this machine. Raises SetupError."""
    folder = Folders(pipeline.conf, os.environ).open(path)
    if folder is None:
        raise SetupError(
            f"metrics.table: {why_left(path)}; correct it, or name a folder of this machine"
        )
    return folder.options


def _family(name: str) -> GaugeMetricFamily:
    metric = METRICS[name]
    return GaugeMetricFamily(metric.exported, metric.meaning, labels=metric.labels)


def _asked(ask: Callable[[], ByPartition]) -> ByPartition:
    try:
        return ask()
    except Exception:
        # Spark may be about to end: a scrape without lag is better than none.
        return {}
