"""The text of `/metrics` and the checks of `/health`, made of the values of a process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from josefine_broker.host.metric_table import Kind
from josefine_lake.report.metric_table import METRICS, PER_PARTITION, TABLE
from josefine_lake.report.table_stats import ProcessStats, TableStats

SILENT_MS_MAX = 30_000
"""Brokers that have not answered for so long fail the health check."""
PROBLEM_CHARS_MAX = 400

Numbers = Mapping[str, float | None]


class Scrape(Collector):
    """The values of a process at one moment, for the Prometheus library."""

    def __init__(
        self, stats: ProcessStats, process: Numbers, wall_ms: int, what: str = TABLE
    ) -> None:
        """`what` the process writes: `metric_table.TABLE` or `ARCHIVE`."""
        self._stats = stats
        self._process = {"topics_refused": len(stats.refused), **process}
        self._wall_ms = wall_ms
        self._what = what

    def collect(self) -> Iterable[Family]:
        stats = self._stats.tables
        tables = {topic: _numbers(each, self._wall_ms) for topic, each in stats.items()}
        for metric in METRICS[self._what]:
            kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
            family = kind(f"josefine_{metric.name}", metric.meaning, labels=metric.labels)
            name = metric.name.removeprefix(f"{self._what}_")
            if name == PER_PARTITION:
                for topic, each in stats.items():
                    for tp, end in each.lag.reached.items():
                        _add(family, [topic, str(tp.partition)], end)
            elif metric.labels:
                for topic, numbers in tables.items():
                    _add(family, [topic], numbers[name])
            else:
                _add(family, [], self._process.get(name))
            yield family

    def text(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)


def _add(family: Any, labels: list[str], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)


def _numbers(table: TableStats, wall_ms: int) -> Numbers:
    """Each metric of one table or archive; None: it has none now."""
    counts, lag_ms = table.counts, table.lag.age_ms(wall_ms)
    return {
        "rows": counts.rows,
        "records": counts.rows,
        "bytes": counts.bytes,
        "commits": counts.commits,
        "dead_letters": counts.dead_letters,
        "compactions": counts.compactions,
        "files_deleted": counts.files_deleted,
        "upkeep_failures": counts.upkeep_failures,
        "errors": counts.errors,
        "lag_seconds": _seconds(lag_ms),
        "lag_records": table.lag.records,
        "target_lag_seconds": table.target_lag_ms / 1_000,
        "files": table.files,
        "size_bytes": table.size_bytes,
        "commit_timestamp_seconds": _seconds(table.committed_ms),
        "look_timestamp_seconds": _seconds(table.looked_ms),
        "stopped": int(table.is_stopped),
    }


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1_000


def health(stats: ProcessStats, now_ms: int) -> tuple[bool, dict[str, Any]]:
    """Whether all is well, and the body of `/health`: each check with the fact it is based on."""
    checks = dict(_checks(stats, now_ms))
    is_well = all(ok for ok, _ in checks.values())
    body = {
        "status": "ok" if is_well else "failing",
        "checks": {name: {"ok": ok, "detail": detail} for name, (ok, detail) in checks.items()},
        "tables": {
            topic: {
                "state": _state(each),
                "problem": _short(each.problem or each.upkeep_problem),
            }
            for topic, each in stats.tables.items()
        },
    }
    return is_well, body


def is_ready(stats: ProcessStats, now_ms: int) -> tuple[bool, str]:
    """Whether brokers answer, in one sentence."""
    return dict(_checks(stats, now_ms))["brokers"]


def _checks(stats: ProcessStats, now_ms: int) -> Iterator[tuple[str, tuple[bool, str]]]:
    silent_ms = None if stats.connected_ms is None else now_ms - stats.connected_ms
    if silent_ms is None:
        yield "brokers", (False, "no broker has answered yet")
    else:
        answered = f"answered {silent_ms / 1_000:.1f} s ago"
        yield "brokers", (silent_ms <= SILENT_MS_MAX, answered)
    states = {topic: _state(each) for topic, each in stats.tables.items()}
    bad = [f"{topic} {state}" for topic, state in states.items() if state != "writing"]
    yield "tables", (not bad, ", ".join(bad) or f"{len(states)} written by this process")
    refused = ", ".join(f"{topic}: {what}" for topic, what in stats.refused.items())
    yield "configs", (not refused, refused or "all can be served")


def _state(table: TableStats) -> str:
    if table.is_stopped:
        return "stopped"
    return "tried again" if table.problem else "writing"


def _short(problem: str) -> str:
    return problem if len(problem) <= PROBLEM_CHARS_MAX else problem[:PROBLEM_CHARS_MAX] + "…"
