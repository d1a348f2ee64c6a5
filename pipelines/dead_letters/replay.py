"""Replay of a source's dead letters through the current pipeline file, exactly once (`dlq replay`).

A record that the file accepts now goes into the tables that left it out; any other stays a dead
letter. The plan is committed first (`replay_table.py`). Then each sink gets its rows in one commit
of a separate chain, whose version is the replay's number. So the commit is made once, whatever is
killed, and an unfinished replay is finished before another one starts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base import failpoints
from pipelines.base.errors import ChainError, RunError
from pipelines.base.plurals import counted
from pipelines.dead_letters.replay_plan import Look, Outlook
from pipelines.dead_letters.replay_table import RECORD, ReplayTable, same_letter
from pipelines.dead_letters.routing import Letter
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.model.column_types import Type
from pipelines.model.pipeline import Action, Pipeline, Sink, Source
from pipelines.model.plan import PipelinePlan, compile_plan
from pipelines.sinks.commits import NO_BATCH, Link, StoppedError
from pipelines.sinks.delta_log import DeltaLogReader
from pipelines.sinks.delta_tables import letters_folder
from pipelines.sinks.target import OpenTarget, SinkChain, TargetRun
from pipelines.sinks.targets import target_of
from pipelines.spark.files import HadoopFiles
from pipelines.transforms import checks as checking
from pipelines.transforms import dataframes
from pipelines.transforms.deduplicate import span_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Replay:
    """The replay of one source. `only`: the sinks that the user named, overriding their chains."""

    def __init__(
        self, spark: SparkSession, plan: PipelinePlan, source: Source, only: Collection[str] = ()
    ) -> None:
        # In a session of its own: a transform's views must not collide with the caller's.
        self._spark = spark.newSession()
        self._plan, self._pipeline, self._source = plan, plan.pipeline, source
        self._run = uuid4().hex
        self._table = ReplayTable(self._spark, plan.pipeline, source, self._run)
        self._look = Look(self._spark, plan, source, self._table, only)

    def look(self) -> Outlook:
        """The result of a `run` now. Writes nothing."""
        self._refuse_lost_table()
        number = self._table.newest
        if number == 0:
            return self._look.look()
        planned = self._table.of(number).persist()
        try:
            waits = self._is_unfinished(number, planned)
            return self._again(number, planned) if waits else self._look.look()
        finally:
            planned.unpersist()

    def run(self) -> Outlook:
        """Finish an unfinished replay, or make the next one. Raises RunError, ChainError."""
        outlook = self.look()
        try:
            if outlook.replay is None and outlook.planned:
                outlook.replay = self._table.plan(self._look.letters(), outlook.planned)
                failpoints.hit("mid_replay", 0)
            if outlook.replay is not None:
                self._finish(outlook, outlook.replay)
        except StoppedError as stopped:
            raise ChainError(
                f"source `{self._source.name}`: another replay or run has committed meanwhile; "
                "run the command again"
            ) from stopped
        return outlook

    def _finish(self, outlook: Outlook, number: int) -> None:
        for index, sink in enumerate(self._sinks_of(outlook), start=1):
            opened = self._opened(sink)
            if _version(opened.chain) < number:
                outlook.rows[sink.name] = self._write(opened, sink, number)
            failpoints.hit("mid_replay", index)

    def _write(self, opened: OpenTarget, sink: Sink, number: int) -> int:
        from pyspark.sql import functions as F  # noqa: N812

        planned = self._table.of(number).where(F.array_contains("sinks", sink.name))
        letters = self._planned_of(planned)
        records = self._look.records(letters)
        parsed = dataframes.persisted(records, self._look.reading)
        try:
            good = dataframes.good_rows(parsed, self._look.reading)
            nodes = dataframes.nodes_for(self._plan, self._plan.sinks[sink.name], good)
            of_sink = self._plan.sinks[sink.name].checks
            checks = [check for check in of_sink if check.action is Action.FAIL]
            checking.judge(sink.name, checks, checking.count(nodes.made, checks))
            target = target_of(sink)
            made = target.as_stored(nodes.rows[sink.input])
            rows = target.rows(self._pipeline, made)
            self._refuse_other_columns(opened, sink, dataframes.types(dataframes.stored(rows)))
            how = sink.deduplicate
            commit = Commit(start={}, end=TopicOffsets(), txn_version=number)
            span = span_of(made, how) if how else None
            said = {"replay": number, "source": self._source.name}
            return opened.commit(rows, commit, NO_BATCH, said, span).rows
        finally:
            parsed.unpersist()

    def _refuse_other_columns(
        self, opened: OpenTarget, sink: Sink, columns: Mapping[str, Type]
    ) -> None:
        found = self._of_name(sink, sink.name).chain.load()
        said = found.said if isinstance(found, Tip) else {}
        if not opened.fit(columns, said):
            raise RunError(
                f"sink `{sink.name}`: {opened.chain.path} has not the columns of the file yet: "
                "run the pipeline first"
            )

    def _refuse_lost_table(self) -> None:
        """Raise RunError if the replay table lost replays: dead letters would be replayed again, or
        a sink would take a new replay for an earlier one of the same number and skip it."""
        newest = self._table.newest
        for sink in self._look.sinks:
            version = _version(self._opened(sink).chain)
            if version > newest:
                raise RunError(
                    f"sink `{sink.name}` has replay {version} of source `{self._source.name}`, but "
                    f"{self._table.told} ends at {newest}: it was deleted or restored, and which "
                    "dead letters were replayed is not known; bring it back, or set the dead "
                    "letters' table aside, too"
                )

    def _is_unfinished(self, number: int, planned: DataFrame) -> bool:
        """Whether a sink lacks its rows of the newest replay. `planned`: its dead letters."""
        names = {name for row in planned.select("sinks").distinct().collect() for name in row[0]}
        known = {sink.name: sink for sink in self._look.sinks}
        for name in sorted(names):
            if name not in known:
                raise RunError(
                    f"replay {number} of source `{self._source.name}` was for a sink `{name}`, "
                    "which the file has not: give it its name back until the replay is finished"
                )
        return any(_version(self._opened(known[name]).chain) < number for name in names)

    def _again(self, number: int, planned: DataFrame) -> Outlook:
        """Resume an unfinished replay: the same dead letters, all of which must still be good."""
        letters = self._planned_of(planned)
        _, bad = self._look.judged(letters)
        if bad:
            what = counted(len(bad), "letter")
            raise RunError(
                f"replay {number} of source `{self._source.name}` was begun with {what} that the "
                f"file does not take any more ({bad[0][3]}): fix it, then finish the replay"
            )
        rows = planned.select(*RECORD[:3], "sinks", "sink").collect()
        waiting = self._look.letters().count()
        outlook = Outlook(source=self._source.name, letters=waiting, replay=number)
        outlook.planned = {
            Letter(partition=TopicPartition(*row[:2]), offset=row[2], sink=row[4]): row[3]
            for row in rows
        }
        return outlook

    def _planned_of(self, planned: DataFrame) -> DataFrame:
        letters = self._look.all_letters()
        return letters.join(planned, same_letter(letters, planned), "left_semi")

    def _sinks_of(self, outlook: Outlook) -> list[Sink]:
        wanted = {name for sinks in outlook.planned.values() for name in sinks}
        return [sink for sink in self._look.sinks if sink.name in wanted]

    def _opened(self, sink: Sink) -> OpenTarget:
        """A sink's chain of replays. No sink has a dot in its name, so the name is free."""
        return self._of_name(sink, f"replay.{self._source.name}.{sink.name}")

    def _of_name(self, sink: Sink, name: str) -> OpenTarget:
        target = target_of(sink)
        link = Link(pipeline=self._pipeline.name, sink=name, run=self._run)
        losses = target.loss_table(self._pipeline)
        return target.open(TargetRun(session=lambda: self._spark, link=link, losses=losses))


def _version(chain: SinkChain) -> int:
    """The newest number of a chain of replays."""
    found = chain.load()
    return found.txn_version if found is not None else 0


def replays(
    spark: SparkSession,
    pipeline: Pipeline,
    only: Collection[str],
    do: Callable[[Replay], Outlook],
) -> list[Outlook]:
    """Call `do` for each source, in the file's order; [] without a dead-letter table."""
    path = letters_folder(spark, pipeline)
    if path is None or not DeltaLogReader(HadoopFiles(spark), path, "").versions():
        return []
    plan = compile_plan(pipeline)
    return [do(Replay(spark, plan, source, only)) for source in pipeline.sources.values()]
