"""The table of sink types and their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipelines.model import Sink
from pipelines.targets.delta import DeltaTarget
from pipelines.targets.iceberg.target import IcebergTarget
from pipelines.targets.target import SinkTarget
from pipelines.targets.topic import TopicTarget

TARGETS: Mapping[str, Callable[[Sink], SinkTarget]] = {
    "delta": DeltaTarget,
    "iceberg": IcebergTarget,
    "josefine": TopicTarget,
}
"""`type` of a sink → its target."""


def target_of(sink: Sink) -> SinkTarget:
    """The target of a sink."""
    return TARGETS[sink.type](sink)
