"""Runner of a pipeline file's tests: given records, its SQL in Spark, expected rows. No broker.

A test's records are one batch into empty tables; a Python class with a state gets them in the
batches that they name (`transforms/class_batches.py`). Rows are compared as JSON in the node's own
types, in any order, so `1` matches a BIGINT as well as a DOUBLE; bytes are compared as text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from pipelines.base.errors import ConfigError, Place, RunError
from pipelines.base.quoting import quoted
from pipelines.config.checks import DEAD_LETTER
from pipelines.dead_letters.left_out import RECORDS_MAX, FailedRecord
from pipelines.dead_letters.record_search import TooManyError, without
from pipelines.dead_letters.sink_steps import FailedRecords, SinkSteps
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.model.pipeline import OnError, Pipeline, Source, Transform
from pipelines.model.plan import PipelinePlan, compile_plan
from pipelines.model.test_case import Case, Expectation, Record, json_text
from pipelines.run.failed_record import letters_of
from pipelines.sinks.targets import target_of
from pipelines.sources.driver_rows import source_frame
from pipelines.transforms import checks as checking
from pipelines.transforms import class_batches, dataframes
from pipelines.transforms.decoders import reading_of
from pipelines.transforms.topic_rows import JSON_TEXT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOLD_MAX = 5
"""Maximum of missing rows and of unexpected rows in a report; the others are counted."""
_BAD_TEXT = "_josefine_bad_text"
_EXACT = Context(prec=2_000)
"""More digits than a DOUBLE can have, written out; by default 28 are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one test; it passed if it has no complaints."""

    name: str
    place: Place
    complaints: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """For scripts."""
        said = {"line": self.place.line, "ok": not self.complaints}
        return {"name": self.name, **said, "complaints": list(self.complaints)}


def run_cases(spark: SparkSession, pipeline: Pipeline) -> list[Outcome]:
    """Run every test, in file order. Raises ConfigError for SQL that `plan` refuses."""
    plan = compile_plan(pipeline)
    return outcomes_of(pipeline, lambda case, each: complaints_of(spark, plan, case, each))


def outcomes_of(
    pipeline: Pipeline, complaints: Callable[[Case, Expectation], Iterable[str]]
) -> list[Outcome]:
    """The outcome of every test, in file order; `complaints` compares one expected node."""
    return [
        Outcome(
            name=case.name,
            place=case.place,
            complaints=tuple(
                f"{each.node}: {complaint}"
                for each in case.expected
                for complaint in complaints(case, each)
            ),
        )
        for case in pipeline.cases
    ]


def lines(file: str, outcomes: Iterable[Outcome]) -> list[str]:
    """The report for people."""
    told = []
    for each in outcomes:
        told.append(f"  {'FAILED' if each.complaints else 'ok    '}  {each.name}")
        told += [f"      line {each.place.line}: {one}" for one in each.complaints]
    return [f"{file}:", *told] if told else [f"{file}: it has no tests"]


def complaints_of(
    spark: SparkSession, plan: PipelinePlan, case: Case, expected: Expectation
) -> list[str]:
    """The differences between a node's rows and the expected ones, [] if there are none. Raises
    ConfigError for SQL that `plan` refuses."""
    from pyspark.errors import PySparkException

    plan = plan.with_rows(case.tables)
    try:
        frame = as_text(_frame(spark.newSession(), plan, case, expected.node))
        sink = plan.pipeline.sinks.get(expected.node)
        if sink is not None and not target_of(sink).has_columns:
            return _of_topic(frame, expected)
        # Every column of every row is computed, so that one that fails is a complaint.
        found = Counter(_as_json(frame, frame.columns))
        complaints = []
        if expected.count is not None and found.total() != expected.count:
            complaints.append(f"expected {_rows(expected.count)}, found {found.total()}")
        if expected.rows is not None:
            complaints += _compared(frame, expected.rows, is_subset=expected.is_subset)
    except ConfigError:
        raise
    except (PySparkException, RunError) as error:
        return [clear_reason(error)]
    return complaints


def _of_topic(frame: DataFrame, expected: Expectation) -> list[str]:
    """Records as `key` and `value`; values that are JSON are compared as JSON, `1` is `1.0`."""
    rows = [json.loads(row) for row in _as_json(frame, frame.columns)]
    complaints = []
    if expected.count is not None and len(rows) != expected.count:
        complaints.append(f"expected {_rows(expected.count)}, found {len(rows)}")
    if expected.rows is None:
        return complaints
    named = dict.fromkeys(name for row in expected.rows for name in row)
    unknown = [name for name in named if name not in frame.columns]
    if unknown:
        return [f"no column {', '.join(unknown)}; it has {', '.join(frame.columns)}"]
    columns = [name for name in frame.columns if name in named or not expected.is_subset]
    wanted = Counter(_record(row, columns) for row in expected.rows)
    found = Counter(_record(row, columns) for row in rows)
    return [*complaints, *_told("missing", wanted - found), *_told("unexpected", found - wanted)]


def _record(row: Mapping[str, Any], columns: Iterable[str]) -> str:
    """A record in a comparable form: texts, and JSON objects and lists."""
    return json_text({name: _read(row.get(name)) for name in sorted(columns)})


def _read(told: Any) -> Any:
    if told is None or isinstance(told, (dict, list)):
        return _plain(told)
    if not isinstance(told, str):
        return json_text(told)  # the form of the record itself
    try:
        read = json.loads(told, parse_float=Decimal)
    except ValueError:
        return told
    return _plain(read) if isinstance(read, (dict, list)) else told


def _plain(told: Any) -> Any:
    """`1.0` is `1`, and the keys are in order."""
    if isinstance(told, dict):
        return {name: _plain(told[name]) for name in sorted(told)}
    if isinstance(told, list):
        return [_plain(each) for each in told]
    if isinstance(told, Decimal):
        return int(told) if told == told.to_integral_value() else told.normalize(_EXACT)
    return int(told) if isinstance(told, float) and told.is_integer() else told


def _compared(
    frame: DataFrame, rows: tuple[Mapping[str, Any], ...], *, is_subset: bool
) -> list[str]:
    named = dict.fromkeys(name for row in rows for name in row)
    unknown = [name for name in named if name not in frame.columns]
    if unknown:
        return [f"no column {', '.join(unknown)}; it has {', '.join(frame.columns)}"]
    columns = [name for name in frame.columns if name in named or not is_subset]
    if not columns:
        return [] if not rows and not frame.head(1) else ["expected rows name no column"]
    wanted, misfits = _typed(frame.select(*map(quoted, columns)), rows)
    if misfits:
        return misfits
    expected, found = Counter(wanted), Counter(_as_json(frame, columns))
    return [*_told("missing", expected - found), *_told("unexpected", found - expected)]


def _typed(frame: DataFrame, rows: tuple[Mapping[str, Any], ...]) -> tuple[list[str], list[str]]:
    """(the rows converted to the frame's column types, the problem or "")."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructType

    wide = StructType([*frame.schema.fields]).add(_BAD_TEXT, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BAD_TEXT}
    texts = [(number, json_text(row)) for number, row in enumerate(rows)]
    given = frame.sparkSession.createDataFrame(texts, "number INT, text STRING")
    read = given.select("number", "text", F.from_json("text", wide, options).alias("row"))
    same = F.to_json(F.struct(*[F.col(f"row.`{name}`") for name in frame.columns]), JSON_TEXT)
    told = read.select("number", "text", same, F.col(f"row.{_BAD_TEXT}")).orderBy("number")
    wanted, misfits = [], []
    for _, text, row, bad in told.collect():
        wanted.append(row)
        if bad is not None:
            kinds = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in frame.schema.fields)
            misfits.append(f"expected {text} does not fit the columns {kinds}")
    return wanted, misfits


def _as_json(frame: DataFrame, columns: list[str]) -> list[str]:
    from pyspark.sql import functions as F  # noqa: N812

    rows = frame.select(F.to_json(F.struct(*map(quoted, columns)), JSON_TEXT)).collect()
    return [row[0] for row in rows]


def as_text(frame: DataFrame) -> DataFrame:
    """Columns of bytes as text."""
    binary = [name for name, kind in frame.dtypes if kind == "binary"]
    for name in binary:
        frame = frame.withColumn(name, frame[quoted(name)].cast("string"))
    return frame


def _told(what: str, rows: Counter[str]) -> list[str]:
    some = sorted(rows.elements())
    more = len(some) - TOLD_MAX
    told = [f"{what} {row}" for row in some[:TOLD_MAX]]
    return told + ([f"{what} {more} more"] if more > 0 else [])


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def _frame(spark: SparkSession, plan: PipelinePlan, case: Case, node: str) -> DataFrame:
    """The rows of a sink's table or a transform, those that fail a check, or the dead letters."""
    if node == DEAD_LETTER:
        return _dead_letters(spark, plan, case)
    pipeline = plan.pipeline
    sink = pipeline.sinks.get(node)
    check = pipeline.checks.get(node)
    name = sink.input if sink else check.on if check else node
    fails, stateful = check is None, _class_of(plan, name)
    if stateful is None:
        at, good = None, _good(spark, plan, case, name, fails=fails)
    else:
        at = stateful.name
        good = {at: _of_class(spark, plan, case, stateful, fails=fails)}
    if check is not None:
        return dataframes.nodes_of(plan, [name], good, at).made[name].where(checking.failing(check))
    if sink is None:
        return dataframes.rows_of(plan, node, good, at)
    if sink.on_error is OnError.DEAD_LETTER:
        failing = [each.place for each in _failing(plan, node, good)]
        good = {name: without(rows, failing) for name, rows in good.items()}
    checks = plan.sinks[node].checks
    wanted = [sink.input, *(each.on for each in checks)]
    nodes = dataframes.nodes_of(plan, wanted, good, at)
    checking.judge(sink.name, checks, checking.count(nodes.made, checks))
    return dataframes.first_rows(target_of(sink).rows(pipeline, nodes.rows[sink.input]))


def _good(
    spark: SparkSession, plan: PipelinePlan, case: Case, node: str, *, fails: bool
) -> dict[str, DataFrame]:
    """The good rows of each source of a node. `fails`: as a run does, at a bad record of a source
    with `on_error: fail`."""
    good: dict[str, DataFrame] = {}
    for source in (plan.pipeline.sources[each] for each in plan.nodes[node].sources):
        reading = reading_of(source, offline=True)
        # Computed once: what follows has plans of the decoded columns alone.
        parsed = dataframes.parse(_records(spark, source, case), reading, is_kept=True)
        parsed = parsed.localCheckpoint()
        if fails and source.has_on_error(OnError.FAIL):
            dataframes.fail_on_bad(parsed, source, reading)
        good[source.name] = dataframes.good_rows(parsed, reading)
    return good


def _class_of(plan: PipelinePlan, node: str) -> Transform | None:
    """The Python class with a state among the transforms of a node; a sink has one at most."""
    transforms = (plan.pipeline.transforms[name] for name in plan.nodes[node].transforms)
    return next((each for each in transforms if each.state is not None), None)


def _of_class(
    spark: SparkSession, plan: PipelinePlan, case: Case, transform: Transform, *, fails: bool
) -> DataFrame:
    """All rows that the class gives for the batches of a test."""
    batches = []
    for part in case.batches():
        node = transform.inputs[0]
        good = _good(spark, plan, part, node, fails=fails)
        rows = dataframes.rows_of(plan, node, good)
        batches.append(class_batches.Batch(rows=rows, clock_ms=part.clock_ms))
    return class_batches.rows_of(transform, batches)


def _dead_letters(spark: SparkSession, plan: PipelinePlan, case: Case) -> DataFrame:
    letters: DataFrame | None = None
    for source in (one for sink in plan.sinks.values() for one in sink.leads):
        of = plan.sources[source.name]
        reading = reading_of(source, offline=True)
        # Computed once, as above.
        parsed = dataframes.parse(_records(spark, source, case), reading, is_kept=True)
        parsed = parsed.localCheckpoint()
        good = dataframes.good_rows(parsed, reading)
        checked_nodes = [check.on for check in of.sending]
        made = dataframes.nodes_of(plan, checked_nodes, good).made
        # `columns: all` in files that are older than the column names all others.
        bad = dataframes.dead_letters(of, parsed, reading, made, {}).drop("stage")
        letters = bad if letters is None else letters.unionByName(bad, allowMissingColumns=True)
    for of_sink in plan.sinks.values():
        if of_sink.sink.on_error is not OnError.DEAD_LETTER:
            continue
        source = of_sink.source
        records, reading = _records(spark, source, case), reading_of(source, offline=True)
        good = dataframes.good_rows(dataframes.parse(records, reading), reading)
        found = _failing(plan, of_sink.name, {source.name: good})
        own = letters_of(records, found, source.name, of_sink.name).drop("stage")
        letters = own if letters is None else letters.unionByName(own, allowMissingColumns=True)
    return spark.createDataFrame([], "source STRING") if letters is None else letters


def _failing(
    plan: PipelinePlan, sink: str, good: Mapping[str, DataFrame]
) -> Sequence[FailedRecord]:
    """The records that a sink with `on_error: dead_letter` leaves out; it has one source."""
    of = plan.sinks[sink]
    steps = SinkSteps(plan, of, target_of(of.sink), has_table=False)
    kept = good[of.source.name].persist()
    try:
        return FailedRecords(steps, kept, RECORDS_MAX).of_rows([])
    except TooManyError as many:
        raise RunError(f"an expression fails for more than {RECORDS_MAX:,} records") from many
    finally:
        kept.unpersist()


def _records(spark: SparkSession, source: Source, case: Case) -> DataFrame:
    """The given records with the columns of the source."""
    return source_frame(spark, source, given_rows(case, source))


def given_rows(case: Case, source: Source) -> list[tuple[Any, ...]]:
    """The records that a test gives to a source, in the order of the source's columns."""
    return [_row(record, source) for record in case.given.get(source.name, ())]


def _row(record: Record, source: Source) -> tuple[Any, ...]:
    row: tuple[Any, ...] = (
        record.key,
        record.value,
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        0,
    )
    return (*row, list(record.headers)) if source.headers else row
