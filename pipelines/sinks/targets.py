"""The table of sink types and their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipelines.model.pipeline import Sink
from pipelines.model.table_family import FAMILY
from pipelines.sinks.delta import DeltaTarget
from pipelines.sinks.family.target import ManyTables
from pipelines.sinks.iceberg.target import IcebergTarget
from pipelines.sinks.target import SinkTarget
from pipelines.sinks.topic import TopicTarget

TARGETS: Mapping[str, Callable[[Sink], SinkTarget]] = {
    "delta": DeltaTarget,
    "iceberg": IcebergTarget,
    "josefine": TopicTarget,
    FAMILY: ManyTables,
}
"""`type` of a sink, or `FAMILY` for a Delta sink whose path is a template → its target."""


def target_of(sink: Sink) -> SinkTarget:
    """The target of a sink."""
    return TARGETS[sink.type](sink)
