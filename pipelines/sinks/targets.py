"""The types of sinks: one row for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipelines.model.pipeline import Sink
from pipelines.sinks.delta import DeltaTarget
from pipelines.sinks.target import SinkTarget
from pipelines.sinks.topic import TopicTarget

TARGETS: Mapping[str, Callable[[Sink], SinkTarget]] = {
    "delta": DeltaTarget,
    "josefine": TopicTarget,
}
"""`type` of a sink → its target."""


def target_of(sink: Sink) -> SinkTarget:
    """The place that a sink's rows go to."""
    return TARGETS[sink.type](sink)
