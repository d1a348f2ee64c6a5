"""The table of sink types and their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipelines.model.pipeline import Sink
from pipelines.sinks.delta import DeltaTarget
from pipelines.sinks.iceberg.target import IcebergTarget
from pipelines.sinks.target import SinkTarget
from pipelines.sinks.topic import TopicTarget

TARGETS: Mapping[str, Callable[[Sink], SinkTarget]] = {
    "delta": DeltaTarget,
    "iceberg": IcebergTarget,
    "josefine": TopicTarget,
}
"""`type` of a sink → its target."""


def target_of(sink: Sink) -> SinkTarget:
    """The target of a sink."""
    return TARGETS[sink.type](sink)
