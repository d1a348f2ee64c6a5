"""Errors that only Spark's analysis finds: columns, types and conditions, each with its line.

It works on an empty frame as on a batch. Every error is a ConfigError with the place in the file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pipelines.model.pipeline import Deduplicate, Pipeline, Placed, Sink
from pipelines.spark.errors import complaint, refusal
from pipelines.transforms.row_by_row import refused_in_condition
from pipelines.transforms.scd2 import OWN
from pipelines.transforms.upsert import flag_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATEFUL = re.compile(
    r"^[\s:+|-]*~?(?:'|\*\(\d+\) )?"
    r"(Aggregate|Window|WindowGroupLimit|Distinct|Deduplicate|GlobalLimit|LocalLimit|Tail|Offset"
    r"|Sort|Join|LateralJoin|AsOfJoin|Intersect|Except|Sample|Pivot|EventTimeWatermark|MapGroups"
    r"|(?:FlatMap|CoGroup|TransformWithState)\w*)\b",
    re.MULTILINE,
)


def refuse_twice(pipeline: Pipeline, sink: Sink, names: list[str]) -> None:
    """Raise ConfigError when two columns have one name."""
    lower = [name.lower() for name in names]
    twice = sorted({name for name in lower if lower.count(name) > 1})
    if not twice:
        return
    made = pipeline.transforms.get(sink.input)
    place, path = (made.said.place, made.said.path) if made else (sink.place, f"sinks.{sink.name}")
    raise refusal(place, path, f"column {', '.join(twice)} is there twice")


def refuse_no_time(sink: Sink, how: Deduplicate, rows: DataFrame) -> None:
    """Raise ConfigError when the columns that identify copies are missing or have a wrong type."""
    path = f"sinks.{sink.name}.deduplicate"
    kinds = {name.lower(): kind for name, kind in rows.dtypes}
    for name, place in (*zip(how.keys, how.key_places, strict=True), (how.time, how.time_place)):
        if name is not None and name.lower() not in kinds:
            have = ", ".join(rows.columns)
            raise refusal(place, path, f"no column {name} in `{sink.input}`; it has: {have}")
    kind = kinds[how.time.lower()] if how.time else "timestamp"
    if kind != "timestamp":
        message = f"`{how.time}` is {kind.upper()}; expected a column of type TIMESTAMP"
        raise refusal(how.time_place, f"{path}.time", message)


def refuse_own(sink: Sink, rows: DataFrame) -> None:
    """Raise ConfigError when the input has a column that the sink adds itself."""
    own = [name for name in rows.columns if name.lower() in OWN]
    if own:
        message = f"`{sink.input}` has a column `{own[0]}`, which is the sink's own"
        raise refusal(sink.place, f"sinks.{sink.name}", f"{message}: leave it out there")


def refuse_no_layout(sink: Sink, columns: list[str]) -> None:
    """Raise ConfigError when a column by which the table's rows are to lie is not in it."""
    for name, place, path in sink.layout_columns():
        if name.lower() not in map(str.lower, columns):
            message = f"no column `{name}` in the sink's table; it has: {', '.join(columns)}"
            raise refusal(place, path, message)


def refuse_no_constraint(sink: Sink, stored: DataFrame) -> None:
    """Raise ConfigError when one of `constraints` is not a condition over a row of the table."""
    for condition in sink.constraints.values():
        refuse_no_condition(condition, stored)


def refuse_flag(sink: Sink, rows: DataFrame) -> None:
    """Raise ConfigError when `delete_when` is not a condition over single rows."""
    latest = sink.latest
    assert latest is not None
    if latest.delete_when is None:
        return
    place, path = latest.delete_when.place, latest.delete_when.path
    if flag_of(sink) in [name.lower() for name in rows.columns]:
        message = f"`{sink.input}` has a column `{flag_of(sink)}`, which is the sink's own"
        raise refusal(place, path, f"{message}: leave it out there")
    refuse_no_condition(latest.delete_when, rows)


def refuse_no_condition(condition: Placed, rows: DataFrame) -> str:
    """The analyzed plan of a condition. Raises ConfigError for one that is not over single rows."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812

    place, path = condition.place, condition.path
    try:
        asked: Any = rows.select(F.expr(condition.bound))
        kind = asked.schema.fields[0].dataType.simpleString()
    except PySparkException as error:
        raise complaint(place, path, error) from error
    if kind != "boolean":
        raise refusal(place, path, f"expected a condition; it is {kind.upper()}")
    analyzed = analyzed_plan(asked)
    part = refused_in_condition(asked, rows)
    if part:
        raise refusal(place, path, f"{part} needs more than one row; expected a condition")
    return analyzed


def analyzed_plan(frame: Any) -> str:
    """Spark's analyzed plan of a frame, before optimization."""
    return str(frame._jdf.queryExecution().analyzed().treeString())
