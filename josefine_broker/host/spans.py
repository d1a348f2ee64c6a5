"""Spans of requests on their way to a collector: a bounded queue, and a duty that sends them on its
own thread. No request waits for a collector: a span that does not fit is dropped and counted.

A span is a value here; the exporter converts it to OpenTelemetry's own on that thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from josefine_broker.engine.ports import WorkPort
from josefine_broker.host.rate_limited_log import RateLimitedLog
from josefine_broker.host.worker import Breathe

log = logging.getLogger(__name__)

BATCH_SPANS = 512
"""Spans sent together."""
BREATH_SPANS = 16
"""Spans converted between two breaths, in less than a millisecond."""

Attribute = str | int | float | bool


class Span(NamedTuple):
    """One request, from its frame to its answer; times in nanoseconds of Unix time."""

    name: str
    start_ns: int
    end_ns: int
    failed: bool
    attributes: dict[str, Attribute]


Export = Callable[[Sequence[Span], Breathe], bool]
"""Send the spans, on a thread; whether the collector accepted them."""


class Spans:
    """The queue and its counts. Mutated on the event loop only."""

    def __init__(self, export: Export, queue_max: int, seconds: Callable[[], float]) -> None:
        """`seconds` is a monotonic clock."""
        self.sent = self.dropped = self.refused = 0
        self.submit: WorkPort | None = None
        """The exporter's thread, once started."""
        self._export = export
        self._queue_max = queue_max
        self._queue: deque[Span] = deque()
        self._is_sending = False
        self._log_refused = RateLimitedLog(log, "traces not taken", seconds, logging.WARNING)

    def put(self, span: Span) -> None:
        """Never waits."""
        if len(self._queue) >= self._queue_max:
            self.dropped += 1
        else:
            self._queue.append(span)

    def send(self) -> None:
        """Send the queued spans, unless others are being sent; a duty of the ticker."""
        if self._is_sending or not self._queue or self.submit is None:
            return
        count = min(BATCH_SPANS, len(self._queue))
        batch = [self._queue.popleft() for _ in range(count)]
        self._is_sending = True
        self.submit(partial(self._export, batch), lambda: True, partial(self._sent, count))

    def _sent(self, count: int, is_taken: bool | None) -> None:
        self._is_sending = False
        if not is_taken:  # None: the job failed
            self.refused += count
            self._log_refused.report(spans=count)
            return
        self.sent += count
        if len(self._queue) >= BATCH_SPANS:
            self.send()
