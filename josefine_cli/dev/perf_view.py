"""A broker's activity between two samples of its `/metrics`: rates, and its thread's time. No I/O.

A quantile is the upper bound of its bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

Samples = Mapping[tuple[str, str, str], float]
"""(name without `josefine_`, API, upper bound of a bucket) → value; sums over other labels."""
PREFIX = "josefine_"


class Api(NamedTuple):
    """Requests of one API key."""

    api: str
    requests_per_s: float
    errors_per_s: float
    p50_ms: float | None
    """None: the longest bucket has no bound."""
    p99_ms: float | None
    local_us: float
    """Time of the broker's thread per request."""
    thread_percent: float
    waiting_ms: float
    """Waiting time per request: for replicas, new data, members or blocks."""


class Whole(NamedTuple):
    """The figures of the whole broker."""

    requests_per_s: float
    cpu_percent: float
    """Percent of a core."""
    thread_percent: float
    """Time in which its thread processed requests."""
    late_ms: float
    """Average delay of the timers of its thread."""
    bytes_in_per_s: float
    bytes_out_per_s: float
    fsyncs_per_s: float
    fsync_p99_ms: float | None
    connections: int
    parked: int
    resident_bytes: int


def samples_of(text: str) -> Samples:
    """Parse a page of metrics. Raises ValueError."""
    found: dict[tuple[str, str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            key = (
                each.name.removeprefix(PREFIX),
                each.labels.get("api", ""),
                each.labels.get("le", ""),
            )
            found[key] = found.get(key, 0.0) + each.value
    return found


class Between:
    """Two samples, and the seconds between them."""

    def __init__(self, before: Samples, after: Samples, seconds: float) -> None:
        self._before, self._after, self._seconds = before, after, seconds

    def grew(self, name: str, api: str = "", bound: str = "") -> float:
        key = (name, api, bound)
        return self._after.get(key, 0.0) - self._before.get(key, 0.0)

    def quantile_ms(self, share: float, name: str, api: str = "") -> float | None:
        bounds = [
            (float(bound), self.grew(name, api, bound))
            for each, of, bound in self._after
            if (each, of) == (name, api) and bound
        ]
        wanted = share * max((count for _, count in bounds), default=0.0)
        reached = min((bound for bound, count in bounds if count >= wanted > 0), default=None)
        return None if reached in (None, float("inf")) else 1_000 * reached

    def apis(self) -> list[Api]:
        """The requested APIs, the most expensive first."""
        names = {of for name, of, _ in self._after if name == "request_seconds_count" and of}
        found = [each for name in names if (each := self._api(name)).requests_per_s]
        return sorted(found, key=lambda each: -each.thread_percent)

    def _api(self, api: str) -> Api:
        count = self.grew("request_seconds_count", api)
        local_s = self.grew("request_local_seconds_total", api)
        each = max(count, 1)
        return Api(
            api=api,
            requests_per_s=count / self._seconds,
            errors_per_s=self.grew("request_errors_total", api) / self._seconds,
            p50_ms=self.quantile_ms(0.5, "request_seconds_bucket", api),
            p99_ms=self.quantile_ms(0.99, "request_seconds_bucket", api),
            local_us=1e6 * local_s / each,
            thread_percent=100 * local_s / self._seconds,
            waiting_ms=1_000 * self.grew("request_waiting_seconds_total", api) / each,
        )

    def whole(self) -> Whole:
        apis = self.apis()
        now = self._now
        return Whole(
            requests_per_s=sum(each.requests_per_s for each in apis),
            cpu_percent=100 * self.grew("process_cpu_seconds_total") / self._seconds,
            thread_percent=sum(each.thread_percent for each in apis),
            late_ms=1_000
            * self.grew("loop_late_seconds_total")
            / max(self.grew("loop_wakes_total"), 1),
            bytes_in_per_s=self.grew("connection_bytes_in_total") / self._seconds,
            bytes_out_per_s=self.grew("connection_bytes_out_total") / self._seconds,
            fsyncs_per_s=self.grew("fsync_seconds_count") / self._seconds,
            fsync_p99_ms=self.quantile_ms(0.99, "fsync_seconds_bucket"),
            connections=int(now("connections")),
            parked=int(now("parked_requests")),
            resident_bytes=int(now("process_resident_bytes")),
        )

    def _now(self, name: str) -> float:
        return self._after.get((name, "", ""), 0.0)


def lines_of(whole: Whole) -> Iterator[str]:
    """The figures as sentences."""
    mb = 1e6
    yield (
        f"{whole.requests_per_s:,.0f} requests/s, {whole.bytes_in_per_s / mb:,.1f} MB/s in,"
        f" {whole.bytes_out_per_s / mb:,.1f} MB/s out; connections: {whole.connections},"
        f" requests that wait: {whole.parked}"
    )
    fsync = "-" if whole.fsync_p99_ms is None else f"{whole.fsync_p99_ms:.3g} ms"
    yield (
        f"CPU {whole.cpu_percent:.1f} % of a core, {whole.thread_percent:.1f} % of it the thread"
        f" at work on requests, its timers {whole.late_ms:.2f} ms late;"
        f" {whole.fsyncs_per_s:,.1f} fsyncs/s, p99 {fsync}; {whole.resident_bytes / mb:,.0f} MB"
    )
