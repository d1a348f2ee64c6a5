"""The `pipeline plan` command: all DataFrames and schemas over empty inputs, without a broker."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.base.errors import ConfigError, Problem
from pipelines.model.pipeline import OnError, Pipeline
from pipelines.model.plan import compile_plan
from pipelines.sinks.targets import target_of
from pipelines.transforms import dataframes
from pipelines.transforms.analysis_errors import refuse_no_constraint, refuse_no_layout
from pipelines.transforms.stateful import good_of, refuse_beyond

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSink:
    """One query of a run. `checks`: (name, node, condition, action)."""

    name: str
    source: str
    transforms: tuple[str, ...]
    table: str
    mode: str
    keys: tuple[str, ...]
    checkpoint: str
    dead_letters: str | None
    columns: tuple[tuple[str, str], ...]
    checks: tuple[tuple[str, str, str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "source": self.source,
            "transforms": list(self.transforms),
            "table": self.table,
            "mode": self.mode,
            "keys": list(self.keys),
            "checkpoint": self.checkpoint,
            "dead_letters": self.dead_letters,
            "checks": [
                {"name": name, "on": node, "expr": expr, "action": action}
                for name, node, expr, action in self.checks
            ],
            "columns": [{"name": name, "type": kind} for name, kind in self.columns],
        }


def plan(spark: SparkSession, pipeline: Pipeline) -> list[PlannedSink]:
    """Check what only Spark can check; raise ConfigError with every problem found."""
    planned: list[PlannedSink] = []
    problems: list[Problem] = []
    compiled = compile_plan(pipeline.with_rows({}))
    for of in compiled.sinks.values():
        sink = of.sink
        # A session per sink: transforms are temporary views, which another sink must not see.
        try:
            session = spark.newSession()
            good = good_of(compiled, sink.input, partial(dataframes.empty_source, session))
            refuse_beyond(compiled, of, good)
            made = dataframes.rows_of(compiled, sink.input, good)
            stored = dataframes.stored(target_of(sink).rows(compiled.pipeline, made))
            refuse_no_layout(sink, stored.columns)
            refuse_no_constraint(sink, stored)
            dataframes.refuse_checks(compiled, of, good)
        except ConfigError as error:
            problems.extend(problem for problem in error.problems if problem not in problems)
            continue
        writes_dead = bool(of.leads) or sink.on_error is OnError.DEAD_LETTER
        fields = stored.schema.fields
        planned.append(
            PlannedSink(
                name=sink.name,
                source=", ".join(each.name for each in of.sources),
                transforms=tuple(each.name for each in of.transforms),
                table=sink.told,
                mode=sink.mode.value,
                keys=sink.keys,
                checkpoint=pipeline.checkpoint_of(sink.name),
                dead_letters=pipeline.dead_letters if writes_dead else None,
                checks=tuple(
                    (check.name, check.on, check.expr.text, check.action.value)
                    for check in of.checks
                ),
                columns=tuple((f.name, f.dataType.simpleString()) for f in fields),
            )
        )
    if problems:
        raise ConfigError(problems)
    return planned
