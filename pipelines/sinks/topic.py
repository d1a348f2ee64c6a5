"""The topic target: `type: josefine`, rows become records with a key and a value."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_spark.write.state import SinkState
from pipelines.base.errors import RunError
from pipelines.base.finding import ABSENT, ERROR, OK, TROUBLES, Finding, reason_of
from pipelines.exactly_once.offset_chain import Commit, HandedOn
from pipelines.exactly_once.other_chains import ChainName
from pipelines.model.column_types import Type
from pipelines.model.pipeline import Pipeline, Sink
from pipelines.model.topic import SinkTopic, sink_id
from pipelines.sinks.defaults import AppendOnly, OpenDefaults
from pipelines.sinks.target import Connect, Seen, TableAt, TargetRun, Written, table_by_checkpoint
from pipelines.sinks.topic_commits import TopicChain
from pipelines.sinks.topic_records import RowWriter, TopicLedger, topic_id_of
from pipelines.sinks.topic_state import Target, end_of, other_chains, said_by, taken_over
from pipelines.storage.folders import OpenFolder, open_local
from pipelines.transforms.analysis_errors import refuse_twice
from pipelines.transforms.deduplicate import Span
from pipelines.transforms.topic_rows import topic_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class OpenTopic(OpenDefaults):
    """A topic that is open for commits. It is append-only, so its columns never change."""

    chain: TopicChain
    run: TargetRun

    def fit(self, wants: Mapping[str, Type], said: Mapping[str, Any]) -> bool:
        """Every row fits: it is a key and a value."""
        return True

    def change(self) -> None:
        """Nothing."""

    def commit(
        self,
        rows: DataFrame,
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any],
        span: Span | None,
    ) -> Written:
        """Produce the rows; they become visible with their offsets."""
        assert span is None, "a topic only grows"
        entry = self.chain.append(rows, commit, batch_id, more)
        return Written(rows=entry.metrics.get("numOutputRows", 0), version=entry.version)

    def half_write(self, rows: DataFrame) -> None:
        """Plan a batch without a decision."""
        self.chain.half_write(rows)


class TopicTarget(AppendOnly):
    """A topic of a cluster that speaks Kafka."""

    writes = "a topic"
    gets_replay = False
    has_columns = False

    def __init__(self, sink: Sink) -> None:
        assert sink.topic is not None
        self.sink = sink
        self._topic: SinkTopic = sink.topic

    def rows(self, pipeline: Pipeline, made: DataFrame) -> DataFrame:
        """Keys and values."""
        refuse_twice(pipeline, self.sink, made.columns)
        return topic_rows(self.sink, self._topic, made)

    def as_stored(self, made: DataFrame) -> DataFrame:
        """Unchanged: there are no keys to find rows by."""
        return made

    def prepare(self, run: TargetRun, stored: DataFrame, topic_ids: Collection[str]) -> OpenTopic:
        """Raises RunError if the sink's sources read the topic, SetupError if it does not exist."""
        from josefine_spark.options.environment import settle_environment

        topic_id = topic_id_of(self.sink, self._topic)
        if topic_id and topic_id in topic_ids:
            raise RunError(
                f"sink `{self.sink.name}`: its source reads topic {self._topic.topic}: its rows "
                "would come round for ever"
            )
        settle_environment(run.session())
        return self._opened(run, topic_id)

    def open(self, run: TargetRun) -> OpenTopic:
        """Asks the brokers for the topic's id. Raises SetupError."""
        return self._opened(run, topic_id_of(self.sink, self._topic))

    def _opened(self, run: TargetRun, topic_id: str) -> OpenTopic:
        topic = self._topic
        ledger, write = TopicLedger(topic), RowWriter(topic)
        return OpenTopic(TopicChain(topic, topic_id, run.link, ledger, write, run.on_retry), run)

    def probe(self, connect: Connect) -> str | None:
        """Whether the topic exists. Only a run finds out whether the user may write it."""
        topic = self._topic
        try:
            with connect(topic.bootstrap, topic.security) as client:
                found = client.metadata([topic.topic]).topics[topic.topic]
        except (KafkaError, OSError, ValueError) as error:
            return f"{topic.bootstrap}: {reason_of(error)}"
        if found.error_code is ErrorCode.none:
            return ""
        return TROUBLES.get(found.error_code, found.error_code.name)

    def findings(self, trouble: str | None) -> list[Finding]:
        """`trouble` None: not probed."""
        if trouble is None:
            return []
        what = f"sink `{self.sink.name}`: topic {self._topic.topic}"
        if trouble == ABSENT:
            fix = f"josefine topics create {self._topic.topic} -b {self._topic.bootstrap}"
            return [Finding(ERROR, f"{what} does not exist", fix)]
        if trouble:
            fix = f"start the brokers, or correct `bootstrap` at {self.sink.place}"
            return [Finding(ERROR, f"{what}: {trouble}", fix)]
        return [Finding(OK, f"{what} is there")]

    def describe(self, name: ChainName, open_folder: OpenFolder = open_local) -> Seen:
        """Asks the brokers. Raises SetupError, RunError."""
        topic = self._topic
        where = Target(topic=topic.topic, topic_id=topic_id_of(self.sink, topic))
        states = TopicLedger(topic).all()
        state = states.get(sink_id(name.pipeline, name.sink, topic.topic), SinkState())
        found = end_of(state, where)
        if found is None or isinstance(found, HandedOn):
            found = taken_over(found, states.values(), name.app_id, where)
        said = said_by(state.decided) or {}
        return Seen(
            tip=found,
            others=lambda: other_chains(states.values(), name, where),
            queries=lambda: {str(said.get("query", ""))},
        )

    def folders(self) -> Iterator[tuple[str, str]]:
        """No folder: brokers have the rows."""
        return iter(())

    def loss_table(self, pipeline: Pipeline) -> TableAt:
        """Next to the checkpoint."""
        return table_by_checkpoint(pipeline, self.sink)
