"""Export of spans to OpenTelemetry by OTLP over HTTP: the only module that uses its packages, which
the extra `otel` installs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from josefine_broker.base.install_commands import not_installed
from josefine_broker.host.spans import BREATH_SPANS, Span
from josefine_broker.host.worker import Breathe

TIMEOUT_S = 3.0
"""Time for one batch, including retries: a stopping broker waits for it."""


class TracesError(Exception):
    """Traces are not available; the message is one sentence for the user."""


class Otlp:
    """`export` on its own thread; `close` from anywhere. Implements `spans.Export`."""

    def __init__(self, endpoint: str, resource: dict[str, str | int]) -> None:
        """`resource` identifies the broker. Raises TracesError."""
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.sampling import ALWAYS_ON
            from opentelemetry.trace import SpanKind, Status, StatusCode
        except ImportError as error:
            name = (error.name or "opentelemetry").partition(".")[0]
            raise TracesError(f"telemetry.traces: {not_installed(name)}") from None
        self._exporter: Any = OTLPSpanExporter(endpoint=endpoint, timeout=TIMEOUT_S)
        # Sampling is done already, whatever OTEL_TRACES_SAMPLER is.
        provider = TracerProvider(
            sampler=ALWAYS_ON, resource=Resource.create(resource), shutdown_on_exit=False
        )
        self._ended: list[Any] = []
        provider.add_span_processor(_collecting(self._ended))
        self._tracer = provider.get_tracer("josefine")
        self._kind = SpanKind.SERVER
        self._error = Status(StatusCode.ERROR)

    def export(self, spans: Sequence[Span], breathe: Breathe) -> bool:
        """Whether the collector accepted them. Not from two threads at once."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        self._ended.clear()
        for number, each in enumerate(spans):
            if number % BREATH_SPANS == 0:
                breathe()
            span = self._tracer.start_span(
                each.name,
                kind=self._kind,
                attributes=each.attributes,
                start_time=each.start_ns,
            )
            if each.failed:
                span.set_status(self._error)
            span.end(end_time=each.end_ns)
        return self._exporter.export(self._ended) is SpanExportResult.SUCCESS

    def close(self) -> None:
        """Retry nothing any more."""
        self._exporter.shutdown()


def _collecting(into: list[Any]) -> Any:
    from opentelemetry.sdk.trace import SpanProcessor

    class Collecting(SpanProcessor):
        """Collects ended spans: we batch them ourselves."""

        def on_end(self, span: Any) -> None:
            into.append(span)

    return Collecting()
