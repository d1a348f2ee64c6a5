"""The rows of a sink's micro-batches, made with Spark: read, decoded, transformed.

A micro-batch is read once for all steps of a sink, and once for all sinks that share its source.
Rows of a stateful transform come from Spark's stream.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pipelines.dead_letters.left_out import NOTHING_LEFT_OUT, FailedRecord, LeftOut
from pipelines.dead_letters.unreadable_batches import is_unreadable_batch, skipped_and_recorded
from pipelines.dead_letters.writer import Letters, SinkLetters
from pipelines.exactly_once.data_loss import LostRange
from pipelines.exactly_once.offset_chain import Batch, Commit
from pipelines.formats.decode import SKIPPED, Reading
from pipelines.model.pipeline import Mode, Sink, Source, Transform
from pipelines.model.plan import PipelinePlan, SinkPlan
from pipelines.sinks.target import SinkTarget
from pipelines.sources.josefine import SourceKind
from pipelines.transforms import checks, dataframes
from pipelines.transforms.cached_rows import keep, let_go
from pipelines.transforms.checks import Checked
from pipelines.transforms.decoders import reading_of
from pipelines.transforms.deduplicate import Span, span_of
from pipelines.transforms.python_state import why_class_failed
from pipelines.transforms.shared_batches import Persisted, SharedRows, in_session
from pipelines.transforms.stateful import held

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipelines.dead_letters.sink_steps import SinkSteps
    from pipelines.transforms.dataframes import Good


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsIn:
    """The input rows of a micro-batch. `parsed`: source → its rows, if its bad records are needed;
    `good`: the good ones of these, or the rows of `node`; `bad`: the number of bad records, None if
    they are not counted; `kept`: cached until `free`, which also calls `give_back`."""

    parsed: Mapping[str, DataFrame]
    good: DataFrame
    node: str | None = None
    bad: int | None = None
    kept: tuple[Persisted, ...] = ()
    give_back: Callable[[], None] | None = None

    def free(self) -> None:
        for each in self.kept:
            each.unpersist()
        if self.give_back is not None:
            self.give_back()


def nodes_of(plan: PipelinePlan, sink: SinkPlan, rows_in: RowsIn) -> dataframes.Nodes:
    """The nodes from which a sink's rows, checks and dead letters are made."""
    if rows_in.node is None:
        return dataframes.nodes_for(plan, sink, rows_in.good)
    read_again = {
        name: dataframes.good_rows(parsed, reading_of(plan.pipeline.sources[name]))
        for name, parsed in rows_in.parsed.items()
    }
    return dataframes.nodes_for(plan, sink, rows_in.good, rows_in.node, read_again)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A batch's rows, parsed and cached; `bad` as in `RowsIn`."""

    rows: DataFrame
    bad: int | None

    def unpersist(self) -> None:
        let_go(self.rows)


def decoded(frame: DataFrame, reading: Reading | None) -> Decoded:
    """Read, parse and cache a whole batch. Nothing stays cached after a failure."""
    parsed = dataframes.parse(frame, reading, is_kept=True)
    rows, bad = keep(parsed, "true" if reading is None else "not _good")
    return Decoded(rows=rows, bad=None if reading is None else bad)


def rows_of_source(
    frame: DataFrame, source: Source, reading: Reading | None, *, keeps: bool, counts: bool
) -> RowsIn:
    """The rows of one source's batch.

    `keeps`: several steps use the rows (good rows, counts), so cache them: decode once. `counts`:
    count the bad records at once, because their number decides what is written."""
    bad = None
    kept: tuple[Persisted, ...]
    if counts:
        made = decoded(frame, reading)
        parsed, bad, kept = made.rows, made.bad, (made,)
    else:
        parsed = (dataframes.persisted if keeps else dataframes.parse)(frame, reading)
        kept = (parsed,) if keeps else ()
    good = dataframes.good_rows(parsed, reading)
    return RowsIn(parsed={source.name: parsed}, good=good, bad=bad, kept=kept)


def rows_shared(
    frame: DataFrame, sink: Sink, source: Source, batch: Batch, shared: SharedRows[Decoded]
) -> RowsIn | None:
    """The same, decoded once for all sinks that reach this batch; None: the sink reads alone."""
    reading = reading_of(source)
    made = shared.take(sink.name, batch, lambda: decoded(frame, reading))
    if made is None:
        return None
    give_back = partial(shared.give_back, sink.name)
    try:
        parsed = in_session(made.rows, frame.sparkSession)
        good = dataframes.good_rows(parsed, reading)
    except BaseException:
        give_back()
        raise
    return RowsIn(parsed={source.name: parsed}, good=good, bad=made.bad, give_back=give_back)


def rows_of_state(
    frame: DataFrame,
    stateful: Transform,
    sources: Iterable[Source],
    read: Callable[[Source], DataFrame],
) -> RowsIn:
    """The rows of a stateful transform. `sources`: those whose bad records are needed; `read`:
    reads a source's records of the batch again."""
    good = held(frame)
    parsed: dict[str, DataFrame] = {}
    try:
        for one in sources:
            parsed[one.name] = dataframes.persisted(read(one), reading_of(one))
    except BaseException:
        good.unpersist()
        for each in parsed.values():
            each.unpersist()
        raise
    return RowsIn(parsed=parsed, good=good, node=stateful.name, kept=(good, *parsed.values()))


@dataclass(frozen=True, slots=True)
class SparkRows:
    """`prepared_sink.BatchRows` over Spark's DataFrames. `of_letters`: the nodes of the checks that
    send dead letters, if they are not among `nodes`."""

    reader: SparkReader
    rows_in: RowsIn
    nodes: dataframes.Nodes
    of_letters: Mapping[str, DataFrame] | None = None

    @property
    def bad(self) -> int | None:
        return self.rows_in.bad

    def refuse_bad(self, source: Source) -> None:
        """Computes the bad records."""
        parsed, readings = self.rows_in.parsed[source.name], self.reader.readings
        dataframes.fail_on_bad(parsed, source, readings[source.name])

    def checked(self) -> Mapping[str, Checked]:
        """One aggregation for each node with checks."""
        return checks.count(self.nodes.made, self.reader.sink.checks)

    def letters(self, source: Source) -> Letters:
        """A function that returns a frame; nothing is computed yet."""
        plan, name = self.reader.plan.sources[source.name], source.name
        parsed, reading = self.rows_in.parsed[name], self.reader.readings[name]
        made = self.nodes.made if self.of_letters is None else self.of_letters
        return partial(dataframes.dead_letters, plan, parsed, reading, made)

    def target_rows(self) -> tuple[DataFrame, Span | None]:
        """Computes the span if the sink has `deduplicate`."""
        reader, how = self.reader, self.reader.sink.sink.deduplicate
        made = reader.target.as_stored(self.nodes.rows[reader.sink.sink.input])
        out: DataFrame = reader.target.rows(reader.plan.pipeline, made)
        return out, span_of(made, how) if how else None

    def skipped(self) -> int:
        """One count for each source that skips records. The sources of a state keep no records."""
        parsed = self.rows_in.parsed.items()
        skipping = [frame for _, frame in parsed if SKIPPED in frame.columns]
        return sum(frame.where(SKIPPED).count() for frame in skipping)

    def free(self) -> None:
        """Spark caches nothing of the micro-batch for this sink."""
        self.rows_in.free()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReader:
    """`prepared_sink.BatchReader` of a sink. `shared`: the rows that its source's sinks share; None
    if it reads alone. `is_to_skip`: whether the user skips unreadable record batches. `topics_of`:
    the topics of one of several sources."""

    plan: PipelinePlan
    sink: SinkPlan
    kind: SourceKind
    target: SinkTarget
    letters: SinkLetters
    readings: Mapping[str, Reading | None]
    shared: SharedRows[Decoded] | None
    is_to_skip: bool
    topics_of: Callable[[Source], Collection[str]]

    def read(
        self,
        frame: DataFrame,
        batch: Batch,
        own: Commit | None,
        lettered: Collection[Source],
        left_out: LeftOut = NOTHING_LEFT_OUT,
    ) -> SparkRows:
        """Raises ConfigError and the errors of Spark."""
        rows_in = self._rows_in(frame, batch, own, lettered)
        try:
            if left_out is not NOTHING_LEFT_OUT:
                return self._without(rows_in, left_out)
            nodes = nodes_of(self.plan, self.sink, rows_in)
        except BaseException:
            rows_in.free()
            raise
        return SparkRows(self, rows_in, nodes)

    def _without(self, rows_in: RowsIn, left_out: LeftOut) -> SparkRows:
        from pipelines.dead_letters.record_search import without

        plan, good = self.plan, rows_in.good
        if rows_in.node is None:
            nodes = dataframes.nodes_for(plan, self.sink, without(good, left_out.places))
        else:  # the state has the records already, so none is left out
            nodes = nodes_of(plan, self.sink, rows_in)

        of_letters = {}
        for each in self.sink.lettered:
            if (parsed := rows_in.parsed.get(each.source.name)) is None:
                continue
            rows = dataframes.good_rows(parsed, self.readings[each.source.name])
            for node in dict.fromkeys(check.on for check in each.sending):
                # A record of which this sink makes no row may be one that a check sends for
                # another sink, so only those are left out for which the check fails itself.
                of_node = [check.name for check in each.sending if check.on == node]
                out = {place for name in of_node for place in left_out.of_checks.get(name, ())}
                rest = without(rows, sorted(out))
                of_letters[node] = dataframes.nodes_of(plan, [node], rest).made[node]
        return SparkRows(self, rows_in, nodes, of_letters)

    def pass_over(self, frame: DataFrame) -> None:
        """A state must be advanced in any case."""
        if self.sink.stateful:
            held(frame).unpersist()

    def skips(self, error: Exception) -> bool:
        """By the error's text: Spark passes on nothing else."""
        return self.is_to_skip and is_unreadable_batch(error)

    def failed_record(self, frame: DataFrame, batch: Batch, error: Exception) -> str | None:
        """Reads and computes the micro-batch again."""
        # Imported here: a batch that does not fail pays nothing for it.
        from pipelines.run.failed_record import failed_record

        stateful = self.sink.stateful
        if stateful is not None and stateful.state is not None:
            # Without its state the class would give other rows, and other errors.
            return why_class_failed(stateful, error) or None
        return failed_record(self._steps(), self._good(frame, batch), error)

    def left_out(
        self,
        frame: DataFrame,
        batch: Batch,
        error: Exception,
        known: Sequence[FailedRecord],
        there: Callable[[], Sequence[FailedRecord]],
    ) -> LeftOut | None:
        """Reads and computes the micro-batch again."""
        from pipelines.dead_letters.record_search import is_of_a_row
        from pipelines.run.failed_record import left_out

        if not is_of_a_row(error):
            return None
        return left_out(self._steps(), self._good(frame, batch), error, known or there())

    def letters_of(self, frame: DataFrame, records: Sequence[FailedRecord]) -> DataFrame:
        """A join with the records as they were read."""
        from pipelines.run.failed_record import letters_of

        return letters_of(frame, records, self.sink.source.name, self.sink.name)

    def _steps(self) -> SinkSteps:
        from pipelines.dead_letters.sink_steps import SinkSteps

        return SinkSteps(self.plan, self.sink, self.target)

    def _good(self, frame: DataFrame, batch: Batch) -> Good:
        """The good rows of the sink's sources. The rows of a state name no records, so those are
        read again."""

        def good_of(source: Source, rows: DataFrame) -> DataFrame:
            reading = self.readings[source.name]
            return dataframes.good_rows(dataframes.parse(rows, reading), reading)

        if self.sink.stateful is None:
            return good_of(self.sink.source, frame)
        found = {
            one.name: good_of(one, self._read_again(frame, batch, one)) for one in self.sink.sources
        }
        return found if len(found) > 1 else found[self.sink.source.name]

    def without_unreadable(
        self, frame: DataFrame, batch: Batch, record: Callable[[Sequence[LostRange]], None]
    ) -> DataFrame:
        """Reads the micro-batch again."""
        marked = self.kind.read(frame.sparkSession, self.sink.source, batch, marks_unreadable=True)
        return skipped_and_recorded(marked, batch, record)

    def _rows_in(
        self, frame: DataFrame, batch: Batch, own: Commit | None, lettered: Collection[Source]
    ) -> RowsIn:
        sink, source = self.sink, self.sink.source
        if sink.stateful:
            looks = {one.name: one for one in self.letters.looks(lettered, own)}
            if own is not None:
                looks |= {one.name: one for one in sink.failing}
            read = partial(self._read_again, frame, batch)
            return rows_of_state(frame, sink.stateful, looks.values(), read)
        if self.shared is not None:
            shared = rows_shared(frame, sink.sink, source, batch, self.shared)
            if shared is not None:
                return shared
        again = sink.sink.deduplicate is not None or sink.sink.mode is Mode.SCD2
        reading = self.readings[source.name]
        skips = any(side.skips for side in reading or ())
        several = again or skips or bool(sink.failing or sink.checks)
        return rows_of_source(frame, source, reading, keeps=several, counts=bool(lettered))

    def _read_again(self, frame: DataFrame, batch: Batch, source: Source) -> DataFrame:
        if len(self.sink.sources) > 1:
            batch = batch.of_topics(self.topics_of(source))
        return self.kind.read(frame.sparkSession, source, batch)
