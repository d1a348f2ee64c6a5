"""The plan of a replay: the dead letters that are good now, and the tables that lack their rows.

The dead letters go through `decode`, SQL and checks of the current pipeline file again. Nothing is
written here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from josefine_broker.base.ids import TopicPartition
from pipelines.base.errors import RunError
from pipelines.base.quoting import quoted
from pipelines.dead_letters.left_out import RECORDS_MAX
from pipelines.dead_letters.record_search import (
    RecordSearch,
    TooManyError,
    is_of_a_row,
    without,
)
from pipelines.dead_letters.replay_table import LETTER, RECORD, ReplayTable, same_letter, with_sink
from pipelines.dead_letters.routing import (
    Due,
    Letter,
    Reads,
    Way,
    checks_in,
    due,
    due_of_sink,
    reads_of,
    way,
)
from pipelines.dead_letters.sink_steps import (
    PROBES_MAX,
    FailedRecords,
    SinkSteps,
    check_step,
    reason_of,
)
from pipelines.exactly_once.decode_fingerprint import judgement
from pipelines.formats.decode import UNREADABLE_REASON
from pipelines.model.pipeline import OnError, Sink, Source
from pipelines.model.plan import PipelinePlan
from pipelines.sinks.commits import NO_BATCH, Link
from pipelines.sinks.delta_log import DeltaLogReader, LogEntry
from pipelines.sinks.delta_tables import folder_of, letters_folder
from pipelines.sinks.targets import target_of
from pipelines.spark.files import HadoopFiles
from pipelines.transforms import checks as checking
from pipelines.transforms import dataframes
from pipelines.transforms.decoders import reading_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LETTERS_MAX = 100_000
"""The dead letters of one replay, whose offsets are in memory. The next replay takes the rest."""


HAS_NO_RECORDS = (
    "the value is the bytes of a record batch that no reader can decode, so there is no record to"
    " replay: produce its records to the topic again"
)


@dataclass(slots=True, kw_only=True)
class Outlook:
    """The result of a replay of one source. `held`: reason to wait → number of dead letters."""

    source: str
    letters: int = 0
    planned: dict[Letter, list[str]] = field(default_factory=dict)
    held: Counter[str] = field(default_factory=Counter)
    rows: dict[str, int] = field(default_factory=dict)
    replay: int | None = None

    def sinks(self) -> Counter[str]:
        """Sink → number of dead letters that go to it."""
        return Counter(sink for sinks in self.planned.values() for sink in sinks)

    def to_json(self) -> dict[str, Any]:
        """For scripts."""
        said = {"source": self.source, "letters": self.letters, "good": len(self.planned)}
        more = {"held": dict(self.held), "rows": self.rows, "replay": self.replay}
        return {**said, "sinks": dict(self.sinks()), **more}


class Look:
    """One source's dead letters. `only`: the sinks that the user named, overriding their chains."""

    def __init__(
        self,
        spark: SparkSession,
        plan: PipelinePlan,
        source: Source,
        table: ReplayTable,
        only: Collection[str] = (),
    ) -> None:
        self._spark, self._plan = spark, plan
        self._source, self._of_source = source, plan.sources[source.name]
        self._table, self._only = table, only
        own = [plan.sinks[name].sink for name in self._of_source.sinks]
        self.others = [sink for sink in own if not target_of(sink).gets_replay]
        self.stateful = [sink for sink in own if plan.sinks[sink.name].stateful]
        self.sinks = [sink for sink in own if sink not in (*self.others, *self.stateful)]
        self.reading = reading_of(source)
        self._folder = str(letters_folder(spark, plan.pipeline))
        self._read: dict[tuple[str, str], Sequence[LogEntry]] = {}

    def all_letters(self) -> DataFrame:
        """All dead letters of the source."""
        from pyspark.sql import functions as F  # noqa: N812

        dead = with_sink(self._spark.read.format("delta").load(self._folder))
        return dead.where(F.col("source") == self._source.name)

    def letters(self) -> DataFrame:
        """The dead letters that were never replayed."""
        letters, done = self.all_letters(), self._table.rows().select(*LETTER)
        return letters.join(done, same_letter(letters, done), "left_anti")

    def look(self) -> Outlook:
        """The result of a replay now."""
        self._read.clear()
        waiting = self.letters()
        outlook = Outlook(source=self._source.name, letters=waiting.count())
        unreadable = waiting["reason"].startswith(UNREADABLE_REASON)
        letters = waiting.where(~unreadable)
        if without_records := waiting.where(unreadable).count():
            outlook.held[HAS_NO_RECORDS] = without_records
        # Judged, collected and counted: each of these would read the table again.
        some = self._first(letters).persist()
        try:
            made, bad = self.judged(some)
            known = {
                Letter(
                    partition=TopicPartition(r[0], r[1]),
                    offset=r[2],
                    checks=checks_in(r[3]) if r[4] is None else (),
                    sink=r[4],
                )
                for r in some.select(*RECORD[:3], "reason", "sink").collect()
            }
            still = {(row[0], row[1], row[2]): row[3] for row in bad}
            several = self._several(made, known)
            chains = {
                sink.name: self._reads(sink.name, folder_of_sink(self._spark, sink))
                for sink in self.sinks
            }
            wrote = self._reads(f"dead_letter.{self._source.name}", self._folder)
            for letter in sorted(known, key=_order):
                reason = still.get((*letter.partition, letter.offset))
                if reason is not None:
                    outlook.held[f"still: {reason}"] += 1
                    continue
                sinks, why = self._where_to(letter, wrote, chains, several)
                if why:
                    outlook.held[why] += 1
                else:
                    outlook.planned[letter] = sinks
            # Last: only what would be written is computed to see whether it fails.
            self._hold_failing(outlook, some)
        finally:
            some.unpersist()
        return outlook

    def _first(self, letters: DataFrame) -> DataFrame:
        """The dead letters of one replay, always all of a record: a record with `explode` has one
        for each bad element, and they are replayed together."""
        first = letters.orderBy(*RECORD[:3]).limit(LETTERS_MAX)
        if self._source.decode is None or not self._source.decode.explodes:
            return first
        return letters.join(first.select(*RECORD).distinct(), [*RECORD], "left_semi")

    def _hold_failing(self, outlook: Outlook, some: DataFrame) -> None:
        """Take out of the plan what an expression of a sink with `on_error: dead_letter` still
        fails for: one such record would fail the commit of all others."""
        for sink in self.sinks:
            letters = [each for each, sinks in outlook.planned.items() if sink.name in sinks]
            is_asked = sink.on_error is OnError.DEAD_LETTER or any(each.sink for each in letters)
            if not letters or not is_asked:
                continue
            reasons = self._failing(sink, some, letters)
            for each in letters:
                reason = reasons.get((*each.partition, each.offset), reasons.get(None))
                if reason is not None:
                    del outlook.planned[each]
                    outlook.held[f"still: {reason}"] += 1

    def _failing(
        self, sink: Sink, some: DataFrame, letters: Collection[Letter]
    ) -> dict[tuple[str, int, int] | None, str]:
        """Record → the reason why a sink does not take it; None → why it takes none of them."""
        rows = [(*each.partition, each.offset, each.sink) for each in letters]
        kinds = "topic STRING, partition INT, offset BIGINT, sink STRING"
        wanted = self._spark.createDataFrame(rows, kinds)
        same = same_letter(some, wanted, wanted.columns)
        records = self.records(some.join(wanted, same, "left_semi"))
        good = dataframes.good_rows(dataframes.parse(records, self.reading), self.reading)
        kept = good.persist()
        try:
            steps = SinkSteps(self._plan, self._plan.sinks[sink.name], target_of(sink))
            found = FailedRecords(steps, kept, RECORDS_MAX).of_rows([])
        except TooManyError as many:
            reason = reason_of(many.first[1], None)
            return {None: f"an expression fails for more than {RECORDS_MAX:,} of them: {reason}"}
        finally:
            kept.unpersist()
        return {each.place: each.reason for each in found}

    def _where_to_own(self, letter: Letter, name: str) -> tuple[list[str], str]:
        """As `_where_to`, of a dead letter that one sink wrote: into that sink alone."""
        sink = next((each for each in self.sinks if each.name == name), None)
        if self._only:
            # The user may name another sink, such as the new name of this one.
            return [each.name for each in self.sinks if each.name in self._only], ""
        if sink is None:
            return [], f"its sink `{name}` is not in the file, or gets no replay: name another one"
        path = folder_of_sink(self._spark, sink)
        found = due_of_sink(letter, self._commits(sink.name, path), NO_BATCH)
        if found is Due.NOT_READ:
            return [], f"sink `{name}` has not read up to there: run the pipeline first"
        if found is Due.UNSURE:
            return [], f"whether sink `{name}` has its rows is not known: name its sinks"
        return [name] if found is Due.DUE else [], ""

    def _where_to(
        self, letter: Letter, wrote: Reads, chains: Mapping[str, Reads], several: Collection[Letter]
    ) -> tuple[list[str], str]:
        """(the sinks that lack its rows, why they are unknown; "" if they are known)."""
        if letter.sink is not None:
            return self._where_to_own(letter, letter.sink)
        checks = self._plan.pipeline.checks
        gone = [name for name in letter.checks if name not in checks]
        if gone and not self._only:
            return [], f"the file has no check `{gone[0]}`, which sent it: name its sinks"
        if letter in several and not self._only:
            return [], "its record makes several rows, some may be there: name its sinks"
        nodes = [checks[name].on for name in letter.checks if name in checks]
        nodes = nodes if letter.checks else [self._source.name]
        today = judgement(self._of_source)
        sinks = []
        for sink in self.sinks:
            found = due(letter, wrote, chains[sink.name], today)
            if self._only:
                if sink.name in self._only and found is not Due.THERE:
                    sinks.append(sink.name)
                continue
            how = way(self._plan.pipeline, sink.input, nodes)
            if how is Way.NONE or found is Due.THERE:
                continue
            if how is Way.SOME:
                return [], f"sink `{sink.name}` has other rows of its record: name its sinks"
            if found is Due.NOT_READ:
                return [], f"sink `{sink.name}` has not read up to there: run the pipeline first"
            if found is Due.UNSURE:
                return [], f"whether sink `{sink.name}` has its rows is not known: name its sinks"
            sinks.append(sink.name)
        for sink in (*self.others, *self.stateful):
            # A topic's readers could not distinguish replayed rows from duplicates. The results of
            # a state stay as they are: it was advanced without these records.
            due_there = (
                sink.name in self._only
                if self._only
                else (way(self._plan.pipeline, sink.input, nodes) is not Way.NONE)
            )
            if due_there:
                of = target_of(sink)
                what = "has rows of a state" if of.gets_replay else f"writes {of.writes}"
                return [], f"sink `{sink.name}` {what}, which gets no replay: name the others"
        return sinks, ""

    def _several(self, made: Mapping[str, DataFrame], known: Collection[Letter]) -> set[Letter]:
        """The dead letters of checks whose record has several rows at the check's node."""
        names = {name for letter in known for name in letter.checks}
        found: set[tuple[Any, ...]] = set()
        for name in names & self._plan.pipeline.checks.keys():
            rows = made[self._plan.pipeline.checks[name].on]
            columns = checking.record_columns(rows.columns)
            if len(columns) == len(checking.RECORD):
                place = [rows[quoted(columns[each])].alias(each) for each in checking.RECORD]
                again = rows.select(*place).groupBy(*checking.RECORD).count().where("count > 1")
                found |= {(row[0], row[1], row[2]) for row in again.collect()}
        return {each for each in known if each.checks and (*each.partition, each.offset) in found}

    def _reads(self, name: str, path: str) -> Reads:
        return reads_of(self._commits(name, path), NO_BATCH)

    def _commits(self, name: str, path: str) -> Sequence[LogEntry]:
        """A chain's commits, newest first; read once in each look."""
        if (name, path) not in self._read:
            link = Link(pipeline=self._plan.pipeline.name, sink=name, run="")
            reader = DeltaLogReader(HadoopFiles(self._spark), path, link.app_id)
            self._read[name, path] = [*reader.own()]
        return self._read[name, path]

    def judged(self, letters: DataFrame) -> tuple[Mapping[str, DataFrame], Sequence[Any]]:
        """(the nodes as the SQL makes them, the dead letters that the file still rejects)."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        records = self.records(letters)
        parsed = dataframes.parse(records, self.reading)
        good = dataframes.good_rows(parsed, self.reading)
        try:
            return self._judged(parsed, good)
        except (PySparkException, Py4JError) as error:
            if not is_of_a_row(error):
                raise
        # The node of a check cannot be made of a record that a sink left out.
        failing = self._failing_for_checks(good)
        made, rows = self._judged(parsed, without(good, [*failing]))
        return made, [*rows, *((*place, reason) for place, reason in failing.items())]

    def _judged(
        self, parsed: DataFrame, good: DataFrame
    ) -> tuple[Mapping[str, DataFrame], Sequence[Any]]:
        nodes = [check.on for check in self._of_source.sending]
        made = dataframes.nodes_of(self._plan, nodes, good).made
        bad = dataframes.letters_of(self._of_source, parsed, self.reading, made)
        rows = bad.select(*RECORD[:3], "reason").collect() if bad is not None else []
        return made, rows

    def _failing_for_checks(self, good: DataFrame) -> dict[tuple[str, int, int], str]:
        """Record → the error of a check that sends dead letters. Raises RunError."""
        kept = good.persist()
        found: dict[tuple[str, int, int], str] = {}
        try:
            search = RecordSearch(kept, PROBES_MAX)
            for step in (check_step(self._plan, each) for each in self._of_source.sending):
                for place, error in search.all_of_rows(step.compute, RECORDS_MAX):
                    found.setdefault(place, f"{step.path}: {reason_of(error, None)}")
        except TooManyError as many:
            raise RunError(
                f"source `{self._source.name}`: an expression fails for more than {RECORDS_MAX:,} "
                f"dead letters ({reason_of(many.first[1], None)}): correct it before a replay"
            ) from many
        finally:
            kept.unpersist()
        return found

    def records(self, letters: DataFrame) -> DataFrame:
        """Dead letters with the columns of their source."""
        from pyspark.sql import functions as F  # noqa: N812

        wanted = dataframes.empty_source(self._spark, self._source).schema.fields
        there = {name.lower() for name in letters.columns}
        nothing = F.lit(None)
        return letters.select(
            *[
                F.col(f.name) if f.name.lower() in there else nothing.cast(f.dataType).alias(f.name)
                for f in wanted
            ]
        )


def _order(letter: Letter) -> tuple[TopicPartition, int, str]:
    return letter.partition, letter.offset, letter.sink or ""


def folder_of_sink(spark: SparkSession, sink: Sink) -> str:
    """The folder of the sink's table."""
    return sink.path or folder_of(spark, str(sink.table))
