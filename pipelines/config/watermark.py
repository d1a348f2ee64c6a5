"""Reader of a transform's `watermark`, and the features that a stateful stream excludes.

Everything upstream of a state runs in Spark's own stream, where a batch cannot be inspected. So
each feature that needs a batch there is refused by name. Like every reader, it records problems and
continues.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.base.errors import Problem
from pipelines.config.gaps import Gaps
from pipelines.config.loader import Table
from pipelines.config.output_paths import place_in
from pipelines.config.section import Reader, nearest
from pipelines.model.lineage import inputs_of, lineage, stateful_of
from pipelines.model.pipeline import Action, Pipeline, Sink, Transform
from pipelines.model.watermark import Watermark


def watermarks_of(reader: Reader) -> tuple[Watermark, ...]:
    """The watermarks of a transform, in file order."""
    if not reader.has("watermark"):
        return ()
    found = []
    for name, each in reader.named_tables("watermark").items():
        column, delay_ms = each.text("column", required=True), each.duration_ms("delay")
        if column and delay_ms is not None:
            found.append(
                Watermark(
                    input=name,
                    column=column,
                    delay_ms=delay_ms,
                    place=each.place_of("column"),
                    path=each.path_of("column"),
                )
            )
    return tuple(found)


def watermark_problems(pipeline: Pipeline, tree: Table, gaps: Gaps) -> Iterator[Problem]:
    """Record the features that do not work with a stateful transform."""
    for transform in pipeline.transforms.values():
        if transform.watermarks and not gaps.touches(f"transforms.{transform.name}.watermark"):
            yield from _of_no_input(pipeline, transform, tree)
            for key, message in _of_transform(pipeline, transform):
                yield _problem(tree, "transforms", transform.name, key, message)
    for sink in pipeline.sinks.values():
        stateful = stateful_of(pipeline, sink)
        if stateful is not None:
            for key, message in _of_sink(pipeline, sink, stateful):
                yield _problem(tree, "sinks", sink.name, key, message)
            yield from _of_sources(pipeline, stateful, tree)
    yield from _of_checks(pipeline, tree)


def _of_no_input(pipeline: Pipeline, transform: Transform, tree: Table) -> Iterator[Problem]:
    """Watermarks of what is not an input, unless a misspelt input may be meant."""
    known = {*pipeline.sources, *pipeline.lookups, *pipeline.transforms}
    inputs = transform.inputs
    for mark in transform.watermarks:
        if mark.input not in inputs and inputs and known.issuperset(inputs):
            hint = nearest(mark.input, inputs) or f"; expected one of: {', '.join(inputs)}"
            place, path = place_in(tree, "transforms", transform.name, "watermark", mark.input)
            message = f"`{mark.input}` is not among the transform's inputs{hint}"
            yield Problem(place=place, path=path, message=message)


def _of_transform(pipeline: Pipeline, transform: Transform) -> Iterator[tuple[str, str]]:
    if transform.function and transform.state is None:
        yield "python", "a function cannot be stateful: expected `sql` with `watermark`"
    marked = {w.input for w in transform.watermarks}
    without = [name for name in transform.inputs if name not in marked]
    if without and marked <= {*transform.inputs}:
        yield "watermark", f"expected column and delay of each input; missing: {', '.join(without)}"
    names = [name for name in lineage(pipeline, transform.name)[1] if name != transform.name]
    for name in names:
        each = pipeline.transforms[name]
        if each.watermarks:
            message = f"a second stateful transform, after `{name}`, is not supported yet"
            yield "watermark", message
        elif each.function:
            message = (
                f"the function of `{name}` upstream of a stateful transform is not supported yet"
            )
            yield "inputs", message
    # Each input of a join is one stream of the query, with a range of offsets of its own.
    below = [lineage(pipeline, name)[0] for name in transform.inputs]
    sources = [name for each in below for name in each]
    twice = next((name for name in sources if sources.count(name) > 1), None)
    if twice:
        yield "inputs", f"a join of source `{twice}` with itself is not supported yet"
    elif any(len(each) > 1 for each in below):
        yield "inputs", "expected one input for each source that is joined"
    tables = sorted(inputs_of(pipeline, transform.name) & pipeline.lookups.keys())
    if tables:
        message = (
            f"a table (`{tables[0]}`) upstream of a stateful transform is not supported yet: join "
            "it in a downstream transform"
        )
        yield "inputs", message


def _of_sink(pipeline: Pipeline, sink: Sink, stateful: Transform) -> Iterator[tuple[str, str]]:
    others = {*lineage(pipeline, sink.input)[0]} - {*lineage(pipeline, stateful.name)[0]}
    if others:
        message = f"`{min(others)}` is joined in next to `{stateful.name}`, which is stateful"
        yield "inputs", f"{message}: expected it among that one's inputs"
    above = {*pipeline.sources, *lineage(pipeline, stateful.name)[1]} - {stateful.name}
    for name in lineage(pipeline, sink.input)[1]:
        if name == stateful.name or name in above:
            continue
        outside = [one for one in pipeline.transforms[name].inputs if one in above]
        if outside:
            message = (
                f"`{name}` reads `{outside[0]}` next to `{stateful.name}`, whose rows come from "
                "other batches: expected only inputs made of the latter, and tables"
            )
            yield "inputs", message


def _of_sources(pipeline: Pipeline, stateful: Transform, tree: Table) -> Iterator[Problem]:
    names = lineage(pipeline, stateful.name)[0]
    for name in names:
        source = pipeline.sources[name]
        joined = len(names) > 1
        key = "pattern" if source.pattern is not None else "assign" if source.assigned else ""
        if joined and key:
            message = f"`{stateful.name}` joins it: expected `topics`"
            yield _problem(tree, "sources", name, key, message)
        if source.skips_losses:
            message = (
                f"expected fail: `{stateful.name}` has state in the checkpoint, and recording a "
                "loss discards the checkpoint"
            )
            yield _problem(tree, "sources", name, "on_data_loss", message)


def _of_checks(pipeline: Pipeline, tree: Table) -> Iterator[Problem]:
    """Upstream of a state, rows of a batch are not counted; downstream, a row has many records."""
    stateful = [t for t in pipeline.transforms.values() if t.watermarks]
    for check in pipeline.checks.values():
        for transform in stateful:
            sources, transforms = lineage(pipeline, transform.name)
            if check.on in {*sources, *transforms} - {transform.name}:
                message = (
                    f"`{check.on}` is upstream of `{transform.name}`, which is stateful: a check "
                    "there is not supported yet"
                )
                yield _problem(tree, "checks", check.name, "on", message)
        passed = {check.on, *lineage(pipeline, check.on)[1]} & {t.name for t in stateful}
        if passed and check.action is Action.DEAD_LETTER:
            message = (
                f"a row of `{check.on}` comes from many records: expected warn, drop or fail "
                f"downstream of `{min(passed)}`, which is stateful"
            )
            yield _problem(tree, "checks", check.name, "action", message)


def _problem(tree: Table, section: str, name: str, key: str, message: str) -> Problem:
    place, path = place_in(tree, section, name, key)
    return Problem(place=place, path=path, message=message)
