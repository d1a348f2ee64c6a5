"""Lint of a Delta table's features: a feature whose jar the file does not name."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.base.errors import Problem
from pipelines.model.pipeline import Pipeline, Sink
from pipelines.model.table_features import feature_of

_JARS = ("spark.jars", "spark.jars.packages")


def jar_problems(pipeline: Pipeline, sink: Sink) -> Iterator[Problem]:
    """The features that do nothing without a jar. It may be on a cluster's own class path, so a
    run looks for its class instead (`sinks/delta_features.py`)."""
    jars = ",".join(pipeline.conf.get(name, "") for name in _JARS)
    for wish in sink.wishes:
        feature = feature_of(wish)
        if feature is None or not feature.jar or feature.jar in jars:
            continue
        message = (
            f"the jar {feature.jar} writes it, which spark.jars.packages of `spark.conf` does not "
            "name: without it Delta writes nothing for the other format's readers"
        )
        path = f"sinks.{sink.name}.{wish.word}"
        yield Problem(place=wish.place, path=path, message=message, stops_run=False)
