"""The section `telemetry` of the configuration: traces, and the metrics that clients push."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

from josefine_broker.config.values import Count, Section

TRACES_PATH = "/v1/traces"
"""The path of OTLP over HTTP if an address has none."""


def _parse_endpoint(value: object) -> object:
    parts = urlsplit(value) if isinstance(value, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"must be an http or https address of a collector, got {value!r}")
    if "@" in parts.netloc:
        raise ValueError("must be an address without a user's name")
    return parts._replace(path=TRACES_PATH).geturl() if parts.path in ("", "/") else value


MetricPrefix = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[a-z0-9_.]+$|^\*$")]


class TelemetrySection(Section):
    """Traces of requests (OpenTelemetry, by the extra `otel`), and metrics that clients push."""

    traces: Annotated[str, BeforeValidator(_parse_endpoint)] | None = Field(
        default=None,
        description="Address of a collector, OTLP over HTTP, as http://HOST:4318. They"
        " name clients and users. null: no traces.",
    )
    sample_ratio: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.01,
        description="Share of Kafka clients' requests that are traced, chosen randomly.",
    )
    queue_max: Annotated[Count, Field(le=1_000_000)] = Field(
        default=4_096,
        description="Spans waiting to be sent; above that they are dropped and counted.",
    )
    client_metrics: tuple[MetricPrefix, ...] = Field(
        default=(),
        description="Metrics that clients are asked to push, by the beginnings of their names, as"
        ' "org.apache.kafka.producer."; "*": all. They are at /metrics. []: clients are not asked.',
    )
    client_push_interval_ms: Annotated[Count, Field(ge=100, le=3_600_000)] = Field(
        default=300_000,
        description="How often a client pushes its metrics.",
    )
    client_push_bytes_max: Annotated[Count, Field(ge=1_024, le=16 << 20)] = Field(
        default=1 << 20,
        description="A larger push is refused (Kafka's telemetry.max.bytes).",
    )
