"""`unavailable` of sinks: where it applies, and the check that sends dead letters.

Without the keyword only sinks with rows of Debezium keep values: elsewhere the placeholder is a
text like any other.
"""

from __future__ import annotations

from dataclasses import replace

from josefine_arrow.formats.debezium.unavailable import pattern_of
from pipelines.base.errors import Problem
from pipelines.model.lineage import lineage
from pipelines.model.pipeline import (
    Action,
    Check,
    Format,
    Latest,
    Pipeline,
    Placed,
    Sink,
    Unavailable,
)


def with_unavailable(pipeline: Pipeline, problems: list[Problem]) -> Pipeline:
    """The pipeline with the sinks' `unavailable` settled. `dead_letter` is a check on the input."""
    checks = dict(pipeline.checks)
    sinks = dict(pipeline.sinks)
    for name, sink in pipeline.sinks.items():
        latest = sink.latest
        if latest is None:
            continue
        if latest.unavailable_place is None and not _has_changes(pipeline, sink):
            sinks[name] = replace(sink, latest=replace(latest, unavailable=None))
        elif latest.unavailable is Unavailable.DEAD_LETTER:
            problems.extend(_problems(pipeline, sink, latest))
            check = _check(sink, latest)
            if check.name in checks:
                taken = checks[check.name]
                message = f"`{check.name}` is the check of `unavailable` of sink `{name}`"
                path = f"checks.{check.name}"
                problems.append(Problem(place=taken.place, path=path, message=message))
            checks[check.name] = check
    return replace(pipeline, sinks=sinks, checks=checks)


def _has_changes(pipeline: Pipeline, sink: Sink) -> bool:
    decodes = (pipeline.sources[name].decode for name in lineage(pipeline, sink.input)[0])
    return any(each is not None and each.format is Format.DEBEZIUM for each in decodes)


def _check(sink: Sink, latest: Latest) -> Check:
    """The row's JSON has each form of the placeholder, whatever the columns' types are."""
    place = latest.unavailable_place or sink.place
    pattern = pattern_of(latest.placeholder).replace("\\", "\\\\").replace("'", "\\'")
    path = f"sinks.{sink.name}.unavailable"
    return Check(
        name=f"unavailable_{sink.name}",
        place=place,
        on=sink.input,
        on_place=place,
        expr=Placed(text=f"to_json(struct(*)) NOT RLIKE '{pattern}'", place=place, path=path),
        action=Action.DEAD_LETTER,
        reason=f"a value is the placeholder {latest.placeholder}: the change does not have it",
    )


def _problems(pipeline: Pipeline, sink: Sink, latest: Latest) -> list[Problem]:
    """A record cannot be a dead letter for one sink and a row of another."""
    place = latest.unavailable_place or sink.place
    messages = []
    if pipeline.dead_letter_path is None and pipeline.dead_letter_table is None:
        messages.append("`dead_letter`, where such records go, is missing at the top")
    for other in pipeline.sinks.values():
        if other.input != sink.input or other.latest is None:
            continue
        if other.latest.unavailable is not Unavailable.DEAD_LETTER:
            messages.append(
                f"sink `{other.name}` has the same input and no `unavailable: dead_letter`: its "
                "rows would be dead letters, too; write the same there, or give it a transform"
            )
    path = f"sinks.{sink.name}.unavailable"
    return [Problem(place=place, path=path, message=message) for message in messages]
