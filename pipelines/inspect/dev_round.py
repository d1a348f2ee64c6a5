"""One round of `josefine pipeline dev`: the file's tests and a preview of each node, on one Spark.

What did not change since an earlier round is not computed again: a test's result and a node's rows
depend on the records and on the parts of the file in `dependencies`, on nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.base.errors import PipelineError
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.formats.decode import bad_rows
from pipelines.inspect.dependencies import Form, dependencies_of, dependencies_of_rows, form_of
from pipelines.inspect.file_tests import Outcome, complaints_of, given_rows, outcomes_of
from pipelines.inspect.preview import Preview, preview_over
from pipelines.model.pipeline import Pipeline, Source
from pipelines.model.plan import PipelinePlan, compile_plan
from pipelines.model.test_case import Case, Expectation
from pipelines.sources.driver_rows import source_frame
from pipelines.sources.local_records import Row
from pipelines.transforms import dataframes
from pipelines.transforms.decoders import reading_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS_KEPT = 16
"""Results of so many rounds are kept, so that an edit that is taken back costs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The records that previews of a source are made of. `origin`: where they are from."""

    rows: tuple[Row, ...]
    origin: str
    is_offline: bool = False
    """They are a test's, and no registry has their schemas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The preview of a node, or the reason why it has none. `is_old`: an earlier round showed the
    same."""

    node: str
    preview: Preview | None
    failure: str = ""
    is_old: bool = False


class Rounds:
    """Results of earlier rounds. Mutable: each round adds its own."""

    def __init__(self, newest: Callable[[Source], list[Row]]) -> None:
        """`newest` reads a source's newest records and raises SetupError if it cannot."""
        self._newest = newest
        self._records: dict[Form, Given] = {}
        self._complaints: dict[Form, tuple[str, ...]] = {}
        self._previews: dict[Form, Preview | str] = {}
        self._used: list[set[Form]] = []

    def begin(self) -> None:
        """Start a round; results that no recent round used are dropped."""
        self._used = [set(), *self._used[: ROUNDS_KEPT - 1]]
        used = set().union(*self._used)
        if len(self._used) == ROUNDS_KEPT:
            self._complaints = {k: v for k, v in self._complaints.items() if k in used}
            self._previews = {k: v for k, v in self._previews.items() if k in used}

    def forget(self) -> None:
        """Drop all results: Spark starts again, with other settings."""
        self._complaints.clear()
        self._previews.clear()

    def tests(self, spark: SparkSession, pipeline: Pipeline) -> list[Outcome]:
        """The result of each test. Raises ConfigError for SQL that Spark refuses."""
        plan = compile_plan(pipeline)
        return outcomes_of(
            pipeline, lambda case, each: self._complaints_of(spark, plan, case, each)
        )

    def _complaints_of(
        self, spark: SparkSession, plan: PipelinePlan, case: Case, expected: Expectation
    ) -> tuple[str, ...]:
        given = form_of((case.given, case.tables, expected))
        key = ("test", given, dependencies_of(plan, expected.node))
        self._used[0].add(key)
        if key not in self._complaints:
            self._complaints[key] = tuple(complaints_of(spark, plan, case, expected))
        return self._complaints[key]

    def previews(self, spark: SparkSession, pipeline: Pipeline, rows: int) -> Iterator[Shown]:
        """A preview of each source and transform, inputs before what is made of them."""
        plan = compile_plan(pipeline)
        decoded: dict[str, tuple[DataFrame, Mapping[str, int]]] = {}
        # In a session of its own: views of a transform must not collide with the tests'.
        session = spark.newSession()
        for node in (*pipeline.sources, *_in_order(plan)):
            sources = [pipeline.sources[name] for name in plan.nodes[node].sources]
            given = [self.given(source, pipeline) for source in sources]
            key = ("preview", dependencies_of_rows(plan, node), form_of(given), rows)
            self._used[0].add(key)
            is_old = key in self._previews
            if not is_old:
                self._previews[key] = _previewed(session, plan, node, sources, given, decoded, rows)
            found = self._previews[key]
            if isinstance(found, str):
                yield Shown(node=node, preview=None, failure=found, is_old=is_old)
            else:
                yield Shown(node=node, preview=found, is_old=is_old)

    def given(self, source: Source, pipeline: Pipeline) -> Given:
        """A source's newest records, read once and kept, so that two rounds show the same; without
        brokers those of the first test that has some."""
        key = form_of((source.bootstrap, source.topics, source.pattern, source.assigned,
                       source.local, source.headers, source.security))  # fmt: skip
        if key not in self._records:
            try:
                rows = tuple(self._newest(source))
                self._records[key] = Given(rows=rows, origin=f"newest records of {source.told}")
            except PipelineError as error:
                self._records[key] = Given(rows=(), origin=str(error), is_offline=True)
        found = self._records[key]
        if found.rows:
            return found
        for case in pipeline.cases:
            if rows := tuple(given_rows(case, source)):
                return Given(rows=rows, origin=f"test '{case.name}'", is_offline=True)
        return found


def _in_order(plan: PipelinePlan) -> list[str]:
    """The transforms, each after its inputs."""
    return list(
        dict.fromkeys(
            name for each in plan.pipeline.transforms for name in plan.nodes[each].transforms
        )
    )


def _previewed(
    session: SparkSession,
    plan: PipelinePlan,
    node: str,
    sources: list[Source],
    given: list[Given],
    decoded: dict[str, tuple[DataFrame, Mapping[str, int]]],
    rows: int,
) -> Preview | str:
    """The preview, or the reason of a failure. `decoded`: source → its good rows and the number of
    bad ones, shared by the nodes of a round."""
    from pyspark.errors import PySparkException

    # An error of Py4J is of a JVM that has ended: it is the round's, and must not be kept.
    try:
        bad: Counter[str] = Counter()
        for source, of in zip(sources, given, strict=True):
            if source.name not in decoded:
                decoded[source.name] = _decoded(session, source, of)
            bad.update(decoded[source.name][1])
        good = {source.name: decoded[source.name][0] for source in sources}
        return preview_over(plan, node, node, good, bad, rows)
    except PySparkException as error:
        return clear_reason(error)
    except PipelineError as error:
        return str(error)


def _decoded(
    session: SparkSession, source: Source, given: Given
) -> tuple[DataFrame, Mapping[str, int]]:
    """(the good rows, reason → how many bad records)."""
    frame = source_frame(session, source, given.rows)
    reading = reading_of(source, offline=given.is_offline)
    parsed = dataframes.parse(frame, reading, is_kept=True)
    if reading is None:
        return parsed, {}
    # Computed once: each node's plan is then over the decoded columns alone.
    parsed = parsed.localCheckpoint()
    reasons = bad_rows(parsed, reading, source.name).groupBy("reason").count().collect()
    bad = {row["reason"]: row["count"] for row in sorted(reasons)}
    return dataframes.good_rows(parsed, reading), bad
