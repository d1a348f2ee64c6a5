"""Preview of one node: a few rows, made of the newest records. Writes nothing, reads no sink table.

The records are read as a batch, without a checkpoint or group, and pass `decode`, transforms and
checks as in a run. The rows of a sink are its input rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from josefine_spark.base.topic_offsets import ByPartition, nested
from pipelines.base.errors import WrongUsageError
from pipelines.base.quoting import quoted
from pipelines.config.section import nearest
from pipelines.formats.decode import bad_rows
from pipelines.inspect.file_tests import as_text
from pipelines.model.pipeline import Pipeline, Source
from pipelines.model.plan import PipelinePlan, compile_plan
from pipelines.sources.josefine import Topics, batch_options_of
from pipelines.sources.kinds import ANY_KIND
from pipelines.sources.kinds import options_of as local_options
from pipelines.sources.local_records import records_of
from pipelines.sources.newest_records import local_rows
from pipelines.transforms import dataframes
from pipelines.transforms.decoders import reading_of
from pipelines.transforms.topic_rows import JSON_TEXT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """`columns`: name → type; `rows`: as JSON, bytes as text. `bad`: reason → how many of the
    records `decode` refused."""

    node: str
    columns: Mapping[str, str]
    rows: tuple[Mapping[str, Any], ...]
    bad: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """For scripts."""
        columns = [{"name": name, "type": kind} for name, kind in self.columns.items()]
        return {"node": self.node, "columns": columns, "rows": [*self.rows], "bad": {**self.bad}}

    def cells(self) -> list[list[str]]:
        """The rows for people: texts unchanged, other values as JSON."""
        return [[_cell(row[name]) for name in self.columns] for row in self.rows]


def input_of(pipeline: Pipeline, node: str) -> str:
    """The source or transform whose rows a node has. Raises WrongUsageError."""
    if node in pipeline.sinks:
        return pipeline.sinks[node].input
    if node in pipeline.sources or node in pipeline.transforms:
        return node
    known = [*pipeline.sources, *pipeline.transforms, *pipeline.sinks]
    hint = nearest(node, known) or f"; there are {', '.join(known)}"
    raise WrongUsageError(f"{pipeline.file} has no source, transform or sink `{node}`{hint}")


def preview(
    spark: SparkSession, pipeline: Pipeline, node: str, *, rows: int, records: int
) -> Preview:
    """`rows` rows at most, of `records` records of each partition. Raises PipelineError."""
    name, plan = input_of(pipeline, node), compile_plan(pipeline)
    # In a session of its own: views of a transform must not collide with the caller's.
    session = spark.newSession()
    good: dict[str, DataFrame] = {}
    bad: Counter[str] = Counter()
    for source in (pipeline.sources[each] for each in plan.nodes[name].sources):
        reading = reading_of(source)
        parsed = dataframes.parse(_records(session, source, records), reading)
        good[source.name] = dataframes.good_rows(parsed, reading)
        if reading:
            reasons = bad_rows(parsed, reading, source.name).groupBy("reason").count().collect()
            bad.update({row["reason"]: row["count"] for row in sorted(reasons)})
    return preview_over(plan, node, name, good, bad, rows)


def preview_over(
    plan: PipelinePlan,
    node: str,
    rows_node: str,
    good: Mapping[str, DataFrame],
    bad: Mapping[str, int],
    rows: int,
) -> Preview:
    """`rows` rows at most of the source or transform `rows_node`, over the good rows of its
    sources."""
    found = dataframes.rows_of(plan, rows_node, good)
    texts = _as_json(as_text(found), rows)
    return Preview(
        node=node,
        columns=dataframes.columns(found),
        rows=tuple(json.loads(text) for text in texts),
        bad=bad,
    )


def _as_json(frame: DataFrame, rows: int) -> list[str]:
    from pyspark.sql import functions as F  # noqa: N812

    columns = [F.col(quoted(name)) for name in frame.columns]
    row = F.to_json(F.struct(*columns), JSON_TEXT)
    return [each[0] for each in frame.limit(rows).select(row).collect()]


def _records(spark: SparkSession, source: Source, count: int) -> DataFrame:
    """The newest records of each partition; of files and lists, the first."""
    topics = ANY_KIND.look(source)
    if source.local is not None:
        options = local_options(source)
        width = 8 if source.headers else 7
        found = local_rows(records_of(options), topics.latest.ends, count)
        rows = [row[:width] for row in found]
        return spark.createDataFrame(rows, dataframes.empty_source(spark, source).schema)
    options = batch_options_of(source)
    options["startingOffsets"] = json.dumps(nested(newest(topics, count)))
    options["endingOffsets"] = json.dumps(nested(topics.latest.ends))
    return spark.read.format("josefine").options(**options).load()


def newest(topics: Topics, count: int) -> ByPartition:
    """The start offsets of the newest `count` records of each partition."""
    ends = topics.latest.ends
    return {tp: max(topics.earliest.get(tp, 0), end - count) for tp, end in ends.items()}


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
