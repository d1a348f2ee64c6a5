"""Export of a pipeline as a Spark declarative pipeline (SDP, Spark 4.1 and later): two files.

Rules: what is exported makes the same rows as a run from the same records. What is left out or
weaker is listed, one line each. The text contains no value of a secret.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from josefine_spark.sessions.session import DEFAULTS, DELTA_VERSION, SPARK_VERSIONS
from pipelines.inspect.sdp_code import (
    UndecodedError,
    append_flow,
    json_schema,
    path_sink,
    source_view,
    sql_view,
    table,
    table_view,
)
from pipelines.model.lineage import checks_on, lineage
from pipelines.model.pipeline import Action, Check, Format, Mode, OnError, Pipeline, Sink, Source
from pipelines.model.schema_evolution import Evolution
from pipelines.sinks.targets import target_of

SPEC, CODE = "spark-pipeline.yml", "transformations"
_DELTA = {
    **{
        name: DEFAULTS[name] for name in ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")
    },
    "spark.jars.packages": f"io.delta:delta-spark_{SPARK_VERSIONS[-1]}_2.13:{DELTA_VERSION}",
}
"""Settings of Spark's start, which the file of a declarative pipeline cannot have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """`files`: path below the folder → text. `sinks`: the exported sinks. `missing`: one line for
    each feature that is left out."""

    files: Mapping[str, str]
    sinks: tuple[str, ...]
    missing: tuple[str, ...]


def export(pipeline: Pipeline, *, has_secrets: bool = False) -> Export:
    """The files of the pipeline; none if no sink can be exported. `has_secrets`: the pipeline file
    has secrets, which were not read."""
    why = {sink.name: _why_not(pipeline, sink) for sink in pipeline.sinks.values()}
    sinks = [sink for sink in pipeline.sinks.values() if not why[sink.name]]
    left_out = [f"sinks.{name} is left out: {each}" for name, each in why.items() if each]
    secret = [f"secrets of {pipeline.file}: not written, the settings that have one are missing"]
    missing = (*left_out, *(secret if has_secrets else ()), *_weaker(pipeline, sinks))
    files = {}
    if sinks:
        files = {
            SPEC: _spec(pipeline, missing),
            f"{CODE}/{pipeline.name}.py": _code(pipeline, sinks, missing),
        }
    return Export(files=files, sinks=tuple(sink.name for sink in sinks), missing=missing)


def _why_not(pipeline: Pipeline, sink: Sink) -> str:
    """Why a sink has no counterpart; "" if it has one."""
    if sink.type != "delta":
        return f"it writes {target_of(sink).writes}"
    if not sink.told:
        return "its place is a secret"
    if sink.mode is not Mode.APPEND:
        return f"mode {sink.mode.value}"
    if sink.deduplicate is not None:
        return "`deduplicate` looks into the table"
    source = pipeline.sources[lineage(pipeline, sink.input)[0][0]]
    if source.local is not None:
        return f"source `{source.name}` is of type {source.local.type}"
    for how in (source.decode, source.decode_key):
        if how is not None and how.format in (Format.AVRO, Format.PROTOBUF, Format.DEBEZIUM):
            return f"source `{source.name}` is {how.format.value.capitalize()}"
        if how is not None and how.framed:
            return f"source `{source.name}` is in a registry's frame"
        if how is not None and how.explodes:
            return f"source `{source.name}` has an array in each value"
    if why := _undecoded(source):
        return why
    for name in lineage(pipeline, sink.input)[1]:
        if pipeline.transforms[name].function is not None:
            return f"transform `{name}` is Python"
        if pipeline.transforms[name].watermarks:
            return f"transform `{name}` has a state"
    return ""


def _undecoded(source: Source) -> str:
    """Why Spark would store other values of a source than a run does; "" if it would not.

    The connector decodes JSON values as a run does. Spark's own from_json and from_csv are no
    replacement: they change values that do not fit.
    """
    value, key = source.decode, source.decode_key
    for word, how in (("values", value), ("keys", key)):
        reader = {Format.JSON: "from_json", Format.CSV: "from_csv"}.get(how.format) if how else None
        if reader is None or how is None or (how is value and how.format is Format.JSON):
            continue
        said = how.format.value.upper()
        return f"source `{source.name}` has {said} {word}: Spark's {reader} stores some otherwise"
    if value is not None and value.format is Format.JSON:
        try:
            json_schema(value.schema.text)
        except UndecodedError as error:
            return f"source `{source.name}` has {error}"
    return ""


def _nodes(pipeline: Pipeline, sinks: Collection[Sink]) -> tuple[list[Source], list[str], set[str]]:
    """(sources, transforms in build order, lookup tables)."""
    lineages = [lineage(pipeline, sink.input) for sink in sinks]
    sources = dict.fromkeys(name for found, _ in lineages for name in found)
    transforms = [*dict.fromkeys(name for _, found in lineages for name in found)]
    inputs = {one for name in transforms for one in pipeline.transforms[name].inputs}
    return [pipeline.sources[name] for name in sources], transforms, inputs & {*pipeline.lookups}


def _weaker(pipeline: Pipeline, sinks: Collection[Sink]) -> Iterator[str]:
    """The exported features that do less than in a run, and the features that are not exported."""
    sources, transforms, lookups = _nodes(pipeline, sinks)
    for source in sources:
        yield from _weaker_source(source)
    for check in checks_on(pipeline, {*(source.name for source in sources), *transforms}):
        yield f"checks.{check.name}: {_CHECKS[check.action]}"
    for name in sorted(lookups):
        yield f"sources.{name}: its columns and types are the table's, `schema` is not compared"
    for sink in sinks:
        yield (
            f"sinks.{sink.name}: offsets are in `storage` alone: it starts at `start`, also where "
            "the table has the rows; a lost `storage` begins again"
        )
        yield from (f"sinks.{sink.name}.{word}: does nothing" for word in _unused(sink))
        if sink.on_error is OnError.DEAD_LETTER:
            yield f"sinks.{sink.name}.on_error: an expression that fails stops the flow"
    if pipeline.dead_letters:
        yield "dead_letter: there are no dead letters"
    if pipeline.every_ms is not None:
        # The interval comes from one of the two.
        is_fresh = any(sink.fresh_ms is not None for sink in pipeline.sinks.values())
        yield f"{'fresh' if is_fresh else 'trigger.every'}: each run reads what is there, then ends"
    said = {
        "spark.conf: what Spark reads at its start is for spark-pipelines --conf": pipeline.conf,
        f"spark.master: spark-pipelines takes {_remote(pipeline)} instead": pipeline.master,
        "restart: who starts the run begins it again": pipeline.restart,
        "metrics: none": pipeline.metrics or pipeline.metrics_table or pipeline.json_log,
        "tests: josefine pipeline test runs them": pipeline.cases,
    }
    yield from (line for line, is_there in said.items() if is_there)


def _remote(pipeline: Pipeline) -> str:
    """The argument of spark-pipelines that replaces `spark.master`: a local Spark in its process,
    or the address of a Spark Connect server, which a cluster's master is not."""
    if pipeline.master is None or pipeline.master.startswith("local"):
        return f"--remote {shlex.quote(pipeline.master or 'local')}"
    return "--remote sc://HOST:15002"


_CHECKS = {
    Action.WARN: "not counted",
    Action.DROP: "its rows are left out and not counted",
    Action.DEAD_LETTER: "its rows are left out, without a dead letter",
    Action.FAIL: "stops nothing",
}


def _weaker_source(source: Source) -> Iterator[str]:
    at = f"sources.{source.name}"
    if not source.bootstrap:
        yield f"{at}.bootstrap: a secret, write it into the file yourself"
    for word, how in (("value", source.decode), ("key", source.decode_key)):
        if how is None or how.format is Format.STRING:
            continue
        if how.on_error is OnError.DEAD_LETTER:
            yield f"{at}.decode.{word}: bad records are left out, without a dead letter"
    if source.start.by_table:
        yield f"{at}.start: `table` is refused by the connector: write another one"
    words = {
        "on_data_loss": source.skips_losses,
        "commit_group": source.commit_group,
        "stop": source.stop,
    }
    yield from (f"{at}.{word}: does nothing" for word, is_there in words.items() if is_there)


def _unused(sink: Sink) -> Iterator[str]:
    if sink.evolution is not Evolution.NONE:
        yield "schema_evolution"
    if sink.cluster_by and sink.path:
        yield "cluster_by"
    if sink.partition_by:
        yield "partition_by"
    yield from dict.fromkeys(wish.word for wish in sink.wishes)
    if sink.constraints:
        yield "constraints"
    yield from (each.chore.value for each in sink.upkeep)
    if sink.file_bytes is not None:
        yield "file"


def _spec(pipeline: Pipeline, missing: Collection[str]) -> str:
    storage = f"{pipeline.checkpoint}/{pipeline.name}.sdp"
    said: dict[str, Any] = {
        "name": pipeline.name,
        "storage": storage if ":" in storage else f"file://{storage}",
        "configuration": dict(pipeline.conf),
        "libraries": [{"glob": {"include": f"{CODE}/**"}}],
    }
    lines = [f"# {line}".rstrip() for line in _head(pipeline, missing)]
    # JSON is valid YAML and needs no quoting rules.
    return "\n".join([*lines, *(f"{key}: {json.dumps(each)}" for key, each in said.items())]) + "\n"


def _head(pipeline: Pipeline, missing: Collection[str]) -> list[str]:
    return [
        f"{pipeline.name}, written by `josefine pipeline export --sdp`. Spark needs Delta's jar,",
        "josefine's connector, and for its program grpcio (josefine's extra `connect`):",
        "",
        f"    spark-pipelines {_remote(pipeline)} \\",
        *(f"      --conf {name}={value} \\" for name, value in _DELTA.items()),
        f"      run --spec {SPEC}",
        "",
        "Not as in a run of the file that it comes from:",
        *(f"- {line}" for line in missing),
    ]


def _code(pipeline: Pipeline, sinks: Collection[Sink], missing: Collection[str]) -> str:
    sources, transforms, lookups = _nodes(pipeline, sinks)
    names = _Names({sink.table for sink in sinks if sink.table})
    for name in (*(source.name for source in sources), *sorted(lookups), *transforms):
        names.add(name)
    parts = [_imports(_head(pipeline, missing))]
    parts += [
        source_view(
            names.of(source.name), source, _conditions(pipeline, source.name), pipeline.conf
        )
        for source in sources
    ]
    for name in sorted(lookups):
        lookup = pipeline.lookups[name]
        parts.append(table_view(names.of(name), lookup.path, lookup.table))
    for name in transforms:
        transform = pipeline.transforms[name]
        inputs = {one: (names.of(one), one not in lookups) for one in transform.inputs}
        conditions = _conditions(pipeline, name)
        parts.append(sql_view(names.of(name), inputs, transform.said.bound, conditions))
    for sink in sinks:
        view = names.of(sink.input)
        if sink.table:
            parts.append(table(f"write_{sink.name}", sink.table, view, sink.cluster_by))
        else:
            own = names.free(f"{sink.name}_sink")
            parts.append(path_sink(own, str(sink.path)))
            parts.append(append_flow(f"write_{sink.name}", own, view))
    return "\n\n\n".join(parts) + "\n"


def _conditions(pipeline: Pipeline, node: str) -> list[str]:
    checks: tuple[Check, ...] = checks_on(pipeline, [node])
    return [check.expr.bound for check in checks if check.leaves_out]


def _imports(head: list[str]) -> str:
    text = "\n".join(head).replace("\\", "\\\\").replace('"""', "'''")
    return (
        f'"""{text}\n"""\n\n'
        "# ruff: noqa: F821 - the program that loads this file defines `spark`\n\n"
        "from pyspark import pipelines as dp\nfrom pyspark.sql import functions as F  # noqa: N812"
    )


class _Names:
    """The names of the graph, in one namespace for views, tables and sinks. Mutable."""

    def __init__(self, taken: Collection[str]) -> None:
        self._taken = {name.lower() for name in taken}
        self._of: dict[str, str] = {}

    def add(self, name: str) -> None:
        """The view name of a node, usually its own name."""
        self._of[name] = self.free(name)

    def free(self, name: str) -> str:
        """This name, or a similar one that is free."""
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def of(self, name: str) -> str:
        """The view of a node."""
        return self._of[name]
