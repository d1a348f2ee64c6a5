"""Virtual time: events in order of time, then of their making; a checksum over the trace."""

import heapq
import zlib
from collections.abc import Callable

__all__ = ["Scheduler"]


class Scheduler:
    """The one clock of a world. `trace` is over a line per event, for comparing two runs."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.events = 0
        self.trace = 0
        self.trace_to: Callable[[str], None] | None = None
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._queued = 0

    def note(self, what: str) -> None:
        """One line of the trace."""
        line = f"{self.now_ms} {what}"
        self.trace = zlib.crc32(line.encode(), self.trace)
        if self.trace_to is not None:
            self.trace_to(line)

    def at(self, delay_ms: int, event: Callable[[], None]) -> None:
        """Do it so much later; never at once."""
        self._queued += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._queued, event))

    def every(self, period_ms: int, first_ms: int, event: Callable[[], None]) -> None:
        """Do it again and again."""

        def again() -> None:
            self.at(period_ms, again)
            event()

        self.at(first_ms, again)

    def run(self, for_ms: int) -> None:
        """Let time pass."""
        end_ms = self.now_ms + for_ms
        queue, pop = self._queue, heapq.heappop
        while queue and queue[0][0] <= end_ms:
            self.now_ms, _, event = pop(queue)
            self.events += 1
            event()
        self.now_ms = end_ms

    def run_until(self, condition: Callable[[], bool], within_ms: int) -> bool:
        """Run until it holds, looking every 50 ms; does it hold in time?"""
        for _ in range(within_ms // 50):
            if condition():
                return True
            self.run(50)
        return condition()
