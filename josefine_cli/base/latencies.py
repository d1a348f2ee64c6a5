"""Latency quantiles in bounded memory."""

from __future__ import annotations

SAMPLES_MAX = 1_000_000
"""Maximum number of samples; of more latencies only every n-th is kept."""
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}


class Latencies:
    """Samples of latencies for quantiles. Mutable."""

    def __init__(self) -> None:
        self._samples_ms: list[float] = []
        self._every = 1
        self._count = 0
        self.max_ms = 0.0

    def add(self, ms: float) -> None:
        self.max_ms = max(self.max_ms, ms)
        self._count += 1
        if self._count % self._every:
            return
        self._samples_ms.append(ms)
        if len(self._samples_ms) == SAMPLES_MAX:
            del self._samples_ms[::2]
            self._every *= 2

    def quantiles(self) -> dict[str, float]:
        """The quantiles by name, in ms, with the maximum; zeros without samples."""
        ordered = sorted(self._samples_ms) or [0.0]
        found = {
            name: round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 3)
            for name, share in QUANTILES.items()
        }
        return {**found, "max": round(self.max_ms, 3)}
