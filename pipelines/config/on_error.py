"""`on_error: dead_letter` of sinks: where it cannot work.

The keyword belongs to the sink. A transform may have several sinks, and the record may be a row of
another one; a merge's arithmetic is in no transform.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.base.errors import Problem
from pipelines.model.lineage import lineage, stateful_of
from pipelines.model.pipeline import OnError, Pipeline, Sink


def on_error_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """A problem for each sink whose records cannot be dead letters one by one."""
    for sink in pipeline.sinks.values():
        if sink.on_error is OnError.DEAD_LETTER and sink.input:
            for message in _messages(pipeline, sink):
                place = sink.on_error_place or sink.place
                path = f"sinks.{sink.name}.on_error"
                yield Problem(place=place, path=path, message=message)


def _messages(pipeline: Pipeline, sink: Sink) -> Iterator[str]:
    if pipeline.dead_letters is None:
        yield "`dead_letter`, where such records go, is missing at the top"
    stateful = stateful_of(pipeline, sink)
    if stateful is not None:
        yield (
            f"`{stateful.name}` combines rows of many batches, and its state has a record already "
            "when an expression fails: expected fail, and `try_cast` and the like in its SQL"
        )
    for name in lineage(pipeline, sink.input)[0]:
        decode = pipeline.sources[name].decode if name in pipeline.sources else None
        if decode is not None and decode.explodes:
            yield (
                f"a record of `{name}` makes several rows (`explode`), of which one may fail: "
                "expected fail, and `try_cast` and the like in the SQL"
            )
