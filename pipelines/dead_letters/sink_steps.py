"""Steps of a sink that may fail for a record, and the names of what fails, for its dead letter.

A step is computed apart from the others: the rows of the sink's transforms, the condition of each
check, the rows for the table. A check that sends dead letters for other sinks is a step, too: this
sink may have to write those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.base.quoting import quoted
from pipelines.config.source_positions import place_at
from pipelines.dead_letters.left_out import FailedRecord, Stage
from pipelines.dead_letters.record_search import (
    Failure,
    Place,
    RecordSearch,
    failure_of,
    only,
)
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.model.pipeline import Check, Placed
from pipelines.model.plan import PipelinePlan, SinkPlan
from pipelines.sinks.delta_tables import folder_of
from pipelines.sinks.target import SinkTarget
from pipelines.spark.errors import in_short
from pipelines.transforms import checks, dataframes
from pipelines.transforms.aggregate import folded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipelines.dead_letters.record_search import Good, Step

PROBES_MAX = 20_000
"""Jobs of one search: enough for `RECORDS_MAX` records among 2^18 offsets."""
COLUMNS_MAX = 10
"""Failures for which the column is searched that Spark does not name, by a job for each column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStep:
    """`combines`: its rows are made of several records. `check`: the name of the check that it is;
    "" for the sink's own rows. `path`: where the file has it."""

    stage: Stage
    compute: Step
    path: str
    combines: bool = False
    check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """An expression of the file. `place`: as in `FILE:LINE:COLUMN`."""

    place: str
    text: str
    is_check: bool = False


def check_step(plan: PipelinePlan, check: Check) -> SinkStep:
    """The condition of a check, over its node."""

    def compute(good: Good) -> DataFrame:
        made = dataframes.nodes_of(plan, [check.on], good).made[check.on]
        return made.select(checks.failing(check))

    return SinkStep(
        stage=Stage.CHECK, compute=compute, path=f"checks.{check.name}", check=check.name
    )


@dataclass(frozen=True, slots=True)
class SinkSteps:
    """The steps of one sink, over any good rows of its sources. `has_table`: False in a test of a
    file, which has no table."""

    plan: PipelinePlan
    sink: SinkPlan
    target: SinkTarget
    has_table: bool = True

    def own(self) -> list[SinkStep]:
        """Those of the sink's rows, in their order; the last one makes the rows for the target."""
        of, sink = self.sink, self.sink.sink
        first = SinkStep(
            stage=Stage.TRANSFORM,
            compute=self._rows,
            path=f"transforms.{sink.input}",
            # Below a window a row has several records.
            combines=of.stateful is not None,
        )
        if sink.merges:
            last = SinkStep(
                stage=Stage.MERGE,
                compute=self._merging(),
                path=f"sinks.{sink.name}.aggregate",
                combines=True,
            )
        else:
            last = SinkStep(
                stage=Stage.STORE, compute=self._stored, path=f"sinks.{sink.name}", combines=True
            )
        below = {*(one.name for one in of.sources), *(one.name for one in of.transforms)}
        judged = [self._check(check) for check in of.checks if check.on in below]
        return [first, *judged, last]

    def of_letters(self) -> list[SinkStep]:
        """The checks that send dead letters of the sink's sources."""
        plans = self.sink.lettered
        return [self._check(check) for each in plans for check in each.sending]

    def _check(self, check: Check) -> SinkStep:
        return check_step(self.plan, check)

    def _rows(self, good: Good) -> DataFrame:
        node = self.sink.sink.input
        return dataframes.nodes_of(self.plan, [node], good).rows[node]

    def _stored(self, good: Good) -> DataFrame:
        rows = self._rows(good)
        made = self.target.as_stored(rows) if self.has_table else rows
        return self.target.rows(self.plan.pipeline, made)

    def _merging(self) -> Step:
        """What the MERGE computes, of the table's rows at the time of the first probe."""
        sink, tables = self.sink.sink, list[Any]()

        def compute(good: Good) -> DataFrame:
            rows = self._stored(good)
            if sink.type != "delta" or not self.has_table:
                return rows
            if not tables:
                spark = rows.sparkSession
                path = sink.path or folder_of(spark, str(sink.table))
                tables.append(spark.read.format("delta").load(path))
            return folded(rows, tables[0], sink)

        return compute

    def texts(self) -> list[tuple[Placed, bool]]:
        """The SQL of the file, and whether it is a check's."""
        sql = [(each.said, False) for each in self.sink.transforms if not each.function]
        judged = dict.fromkeys((*self.sink.checks, *self._sending()))
        return sql + [(check.expr, True) for check in judged]

    def _sending(self) -> list[Check]:
        return [check for each in self.sink.lettered for check in each.sending]

    def named(self, error: Exception) -> Named | None:
        """The expression that Spark names, with its place; None if the file has no such one."""
        contexts: Any = getattr(error, "getQueryContext", list)()
        for context in contexts:
            fragment, at = str(context.fragment()), int(context.startIndex())
            for said, is_check in self.texts():
                if said.bound[at : at + len(fragment)] != fragment:
                    continue
                is_written = said.text[at : at + len(fragment)] == fragment
                place = place_at(said, at) if is_written else said.place
                text = f"{said.path}: `{' '.join(fragment.split())}`"
                return Named(place=str(place), text=text, is_check=is_check)
        return None

    def column(self, step: SinkStep, good: Good) -> Named | None:
        """The first column that fails for these rows: of an expression that Spark does not name."""
        for transform in self.sink.transforms:
            made = dataframes.nodes_of(self.plan, [transform.name], good).made[transform.name]
            if name := _failing_column(made):
                what = "python" if transform.function else "sql"
                path = f"transforms.{transform.name}.{what}"
                place = str(transform.said.place)
                return Named(place=place, text=f"{path}: column `{name}`")
        if step.combines and (name := _failing_column(step.compute(good))):
            return Named(place=str(self.sink.sink.place), text=f"{step.path}: column `{name}`")
        return None


def _failing_column(rows: DataFrame) -> str:
    found = (name for name in rows.columns if failure_of(rows.select(quoted(name))) is not None)
    return next(found, "")


def reason_of(error: Exception, named: Named | None) -> str:
    """The sentence about an error, without codes and advice."""
    return in_short(str(error)) if named else clear_reason(error)


class FailedRecords:
    """The records of a batch for which a sink's steps fail. Mutable: the columns searched for."""

    def __init__(self, steps: SinkSteps, good: Good, found_max: int) -> None:
        """`good`: cached. `found_max`: raise TooManyError beyond."""
        self._steps, self._good, self._max = steps, good, found_max
        self._search = RecordSearch(good, PROBES_MAX)
        self._columns_left = COLUMNS_MAX

    def of_rows(self, known: Sequence[FailedRecord]) -> list[FailedRecord]:
        """Those of the sink's own rows, without `known`, which are left out already."""
        found: list[FailedRecord] = []
        for step in self._steps.own():
            out = [each.place for each in (*known, *found)]
            found += [self._record(step, one) for one in self._failures(step, out, len(found))]
        return found

    def of_checks(self) -> Mapping[str, list[Place]]:
        """Check → the records for which its node or its condition fails."""
        return {
            step.check: [place for place, _ in self._failures(step, [], 0)]
            for step in self._steps.of_letters()
        }

    def _failures(self, step: SinkStep, out: Sequence[Place], so_far: int) -> list[Failure]:
        find = self._search.all_of_sets if step.combines else self._search.all_of_rows
        return find(step.compute, self._max - so_far, out)

    def _record(self, step: SinkStep, failure: Failure) -> FailedRecord:
        place, error = failure
        named = self._steps.named(error)
        if named is None and self._columns_left:
            self._columns_left -= 1
            named = self._steps.column(step, only(self._good, place))
        is_check = named is not None and named.is_check
        return FailedRecord(
            topic=place[0],
            partition=place[1],
            offset=place[2],
            stage=(Stage.CHECK if is_check else step.stage).value,
            reason=f"{named.text if named else step.path}: {reason_of(error, named)}",
        )
