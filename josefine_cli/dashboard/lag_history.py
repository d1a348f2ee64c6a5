"""The lag of consumer groups over time, as far as the dashboard has looked. No I/O."""

from __future__ import annotations

from collections import OrderedDict, deque

GROUPS_MAX = 500
SAMPLES_MAX = 300
STEP_MS = 5_000
"""Minimum time between two samples: a page that is open for 25 minutes has all of them."""


class LagHistory:
    """Samples of each group, oldest first. Mutable; one per dashboard."""

    def __init__(self) -> None:
        self._samples: OrderedDict[str, deque[tuple[int, int]]] = OrderedDict()

    def add(self, group: str, at_ms: int, lag: int) -> None:
        """Add a sample; one that comes early replaces none. The group without new samples for the
        longest time makes room for a new one."""
        samples = self._samples.setdefault(group, deque(maxlen=SAMPLES_MAX))
        if samples and at_ms - samples[-1][0] < STEP_MS:
            return
        samples.append((at_ms, lag))
        self._samples.move_to_end(group)
        if len(self._samples) > GROUPS_MAX:
            self._samples.popitem(last=False)

    def of(self, group: str) -> list[tuple[int, int]]:
        """(time in ms, lag in records), oldest first."""
        return list(self._samples.get(group, ()))
