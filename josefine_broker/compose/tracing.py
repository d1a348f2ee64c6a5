"""The traces of one broker, built from its configuration: its dispatcher, and the sender of its
spans. Without `telemetry.traces` neither exists.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial

from josefine_broker.base.ports import Clock
from josefine_broker.config.broker_config import BrokerConfig
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.dispatch import Dispatcher
from josefine_broker.host.net.sampling import SamplingDispatcher
from josefine_broker.host.otlp import Otlp
from josefine_broker.host.spans import Spans
from josefine_broker.host.ticker import Duty
from josefine_broker.host.worker import Worker

SEND_MS = 1_000
"""The delay until a span is sent."""


class Tracing:
    """The traces of one broker."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        """Raises TracesError."""
        section = config.telemetry
        self.dispatcher: Callable[..., Dispatcher] = Dispatcher
        self._otlp: Otlp | None = None
        self._spans: Spans | None = None
        if section.traces is None:
            return
        named: dict[str, str | int] = {
            "service.name": "josefine",
            "service.instance.id": str(config.broker.id),
        }
        self._otlp = Otlp(section.traces, named)
        self._spans = Spans(
            self._otlp.export, section.queue_max, lambda: clock.monotonic_ms() / 1_000
        )
        self.dispatcher = partial(
            SamplingDispatcher,
            ratio=section.sample_ratio,
            chance=random.Random().random,
            put=self._spans.put,
        )

    def begin(self, on_fatal: Callable[[BaseException], None]) -> Callable[[], Awaitable[None]]:
        """On the loop; the result stops the sending. Spans that wait then are not sent."""
        otlp, spans = self._otlp, self._spans
        if otlp is None or spans is None:
            return _nothing
        worker = Worker(on_fatal, "traces")
        spans.submit = worker.submit

        async def stop() -> None:
            spans.submit = None
            otlp.close()
            await worker.stop()

        return stop

    def duties(self) -> tuple[Duty, ...]:
        """Duties for the ticker."""
        return () if self._spans is None else (Duty("traces", SEND_MS, self._spans.send),)

    def register_metrics(self, metrics: Metrics) -> None:
        """Register only metrics of what is configured."""
        spans = self._spans
        if spans is not None:
            metrics.one("traces_sent", lambda: spans.sent)
            metrics.one("traces_dropped", lambda: spans.dropped)
            metrics.one("traces_refused", lambda: spans.refused)


async def _nothing() -> None:
    """The stop function of nothing."""
