"""Quantiles of what was measured, in bounded memory."""

from __future__ import annotations

SAMPLES_MAX = 1_000_000
"""Latencies kept; of more every n-th is."""
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}


class Latencies:
    """Mutable: so many that their quantiles are told; memory stays bounded."""

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
        """By name, in ms, with the largest; zeros where there is none."""
        ordered = sorted(self._samples_ms) or [0.0]
        found = {
            name: round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 3)
            for name, share in QUANTILES.items()
        }
        return {**found, "max": round(self.max_ms, 3)}
