"""Chained commits into one Delta table: rows, both offset maps and the next txnVersion in one.

Rules: a commit is believed only when the log shows it with our run's mark, because Delta skips a
txnVersion that is not higher without any error; txnVersion is the last own one + 1, never Spark's
batch id (it restarts at 0 with a lost checkpoint); a commit of ours that another run wrote is a
reason to stop; an attempt that failed for a reason of `retries` and left no commit is made again.
Between batches the tip is kept in memory, so a batch costs two look-ups of the log.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from josefine_spark.topic_offsets import nested
from pipelines import failpoints
from pipelines.chain import Commit, HandedOn, Stop, Tip, Verdict
from pipelines.delta_log import FORMAT, DeltaLogReader, LogEntry, known_txn_versions
from pipelines.hadoop import HadoopFiles
from pipelines.merging import Merge
from pipelines.other_chains import ChainName, OtherChain, name_of
from pipelines.reconcile import Unreadable
from pipelines.retries import ATTEMPTS_MAX, Retry, retry_of
from pipelines.table_state import compute_state

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PREFIX = "spark.databricks.delta.write."
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_RESET = _PREFIX + "txnVersion.autoReset.enabled"
FACTS = {"columns", "dead_letters", "judged_by", "keys", "letters", "mode", "state"}
"""What `Link.facts` may have."""
NO_BATCH = -1
"""The batch of a commit that a start makes, before any query runs."""


class StoppedError(Exception):
    """Carries the Stop that a batch ran into."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.verdict.value)
        self.stop = stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Who commits: the parts of userMetadata that do not change during a run.

    `facts`: what the next run has to know of this one.
    """

    pipeline: str
    sink: str
    run: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> ChainName:
        return ChainName(pipeline=self.pipeline, sink=self.sink)

    @property
    def app_id(self) -> str:
        return self.name.app_id


def facts_of(tip: Tip) -> dict[str, Any]:
    """What a commit in the sink's stead has to say of it again."""
    return {name: tip.said[name] for name in FACTS & tip.said.keys()}


class Handed(Protocol):
    """A chain under its old name, whatever it fills."""

    link: Link

    def load(self) -> Tip | Unreadable | HandedOn | None: ...

    def move(self, commit: Commit, **more: Any) -> None: ...


def hand_over(chain: Handed, app_id: str) -> None:
    """Let the old name's chain say, in a commit of *its* next number, that `app_id` goes on. Raises
    StoppedError."""
    tip = chain.load()
    if not isinstance(tip, Tip):
        raise StoppedError(Stop(verdict=Verdict.LOST_RACE))
    reached = tip.reached
    commit = Commit(start=reached.ends, end=reached, txn_version=tip.txn_version + 1)
    chain.link = replace(chain.link, facts=facts_of(tip))
    chain.move(commit, handed_to=app_id)


def said_of(
    link: Link, query_id: str, commit: Commit, batch_id: int, more: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What a commit says of itself; `more` beside the offsets."""
    value: dict[str, Any] = {
        "josefine": FORMAT,
        "pipeline": link.pipeline,
        "sink": link.sink,
        "start": nested(commit.start),
        "end": nested(commit.end.ends),
        "topic_ids": dict(sorted(commit.end.topic_ids.items())),
        "batch": batch_id,
        "query": query_id,
        "run": link.run,
        **link.facts,
    }
    return value | dict(more or {})


class DeltaChain:
    """One sink's chain in one table. Mutable: the tip and the last version seen."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        link: Link,
        on_retry: Callable[[int, Retry], None] = lambda batch_id, retry: None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.path = path
        self.link = link
        self.tip: Tip | None = None
        self.query_id = ""
        self._app_id = link.app_id
        self._files = HadoopFiles(spark)
        self._spark = spark
        self._on_retry = on_retry
        self._pause = pause
        self._log = DeltaLogReader(self._files, path, self._app_id)
        self._version = -1

    def load(self) -> Tip | Unreadable | HandedOn | None:
        """Find the last own commit. Only a Tip is one that the chain goes on behind."""
        found, self._version = self._log.last_tip()
        if isinstance(found, Unreadable) and found.txn_version == 0:
            # The log was cleaned up before it could be read to its beginning.
            known = self._known().get(self._app_id)
            found = None if known is None else Unreadable(txn_version=known, hint=self._hint(found))
        if isinstance(found, Tip) and found.txn_version == 0 and not self._log.reaches_back():
            # Taken over from another name; an own commit of long ago may be out of sight.
            found = replace(found, txn_version=self._known().get(self._app_id, 0))
        self.tip = found if isinstance(found, Tip) else None
        return found

    def is_there(self) -> bool:
        """Whether the folder is a table with any commit."""
        return bool(self._log.versions())

    def others(self) -> list[OtherChain]:
        """The chains of other names in this table; without offsets where the log is cleaned."""
        seen = self._log.other_chains()
        found = [other for other in seen.values() if other]
        if self._log.reaches_back():
            return found
        names = (name_of(app_id) for app_id in self._known() if app_id not in seen)
        return found + [OtherChain(name=name, reached=None) for name in names if name]

    def queries(self) -> set[str]:
        """Spark's ids of the queries behind our commits."""
        return self._log.queries()

    def take_over(self, other: OtherChain) -> None:
        """Hand the other name's place on to this one: a commit of *its* next transaction, so that
        of a run under the old name and this one only one goes on. Raises StoppedError."""
        old = Link(pipeline=other.name.pipeline, sink=other.name.sink, run=self.link.run)
        chain = DeltaChain(self._spark, self.path, old, self._on_retry, self._pause)
        hand_over(chain, self._app_id)

    def move(self, commit: Commit, **more: Any) -> None:
        """Commit offsets without rows; `more` is said beside them. Raises StoppedError."""
        table = self._spark.read.format("delta").load(self.path)
        self.append(table.where("false"), commit, NO_BATCH, more)

    def _known(self) -> dict[str, int]:
        return known_txn_versions(self._spark, self.path)

    def follow(self, tip: Tip | None) -> None:
        """Continue from a tip that the start-up reconciliation settled on."""
        self.tip = tip

    def append(
        self, frame: DataFrame, commit: Commit, batch_id: int, more: Mapping[str, Any] | None = None
    ) -> LogEntry:
        """Append rows; an empty frame still logs the offsets. `more` is said beside them."""
        metadata = self._metadata(commit, batch_id, more)

        def write() -> None:
            writer = (
                failpoints.disturbed(frame)
                .write.format("delta")
                .mode("append")
                .option("userMetadata", metadata)
            )
            writer = writer.option("txnAppId", self._app_id)
            writer.option("txnVersion", str(commit.txn_version)).save(self.path)

        return self._committed(frame.sparkSession, write, commit, batch_id, metadata)

    def half_write(self, frame: DataFrame) -> None:
        """What a crash leaves between the data files and the log entry that names them."""
        frame.write.format("parquet").mode("append").save(self.path)

    def merge(
        self,
        frame: DataFrame,
        how: Merge,
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any] | None = None,
    ) -> LogEntry:
        """Merge rows by key. `more` is said beside the offsets.

        MERGE takes the transaction pair only from session settings. They are set on the query's
        own session and never outlive the call: a pair left behind makes later writes skip.
        """
        from delta.tables import DeltaTable

        session = frame.sparkSession
        metadata = self._metadata(commit, batch_id, more)
        confs = {
            _PREFIX + "txnAppId": self._app_id,
            _PREFIX + "txnVersion": str(commit.txn_version),
            _RESET: "true",
            _METADATA: metadata,
        }
        inserted: dict[str, str | Column] = {f"`{c}`": f"s.`{c}`" for c in how.columns}
        same = " AND ".join(f"t.`{key}` <=> s.`{key}`" for key in how.keys)
        condition = how.on or same

        def write() -> None:
            target = DeltaTable.forPath(session, self.path).alias("t")
            updated = dict(how.update)
            if how.replaces_rows:
                there = {name.lower() for name in updated}
                others = [name for name in target.toDF().columns if name.lower() not in there]
                updated |= dict.fromkeys(others, "null")
            rows = how.source(frame, target.toDF()) if how.source else frame
            merge: Any = target.merge(failpoints.disturbed(rows).alias("s"), condition)
            if how.delete_when is not None:
                merge = merge.whenMatchedDelete(how.delete_when)
            changed: dict[str, str | Column] = {f"`{c}`": sql for c, sql in updated.items()}
            if changed:
                merge = merge.whenMatchedUpdate(how.update_when, changed)
            merge = merge.whenNotMatchedInsert(how.insert_when, inserted)
            try:
                for name, value in confs.items():
                    session.conf.set(name, value)
                merge.execute()
            finally:
                for name in confs:
                    session.conf.unset(name)

        return self._committed(session, write, commit, batch_id, metadata)

    def _committed(
        self,
        session: SparkSession,
        write: Callable[[], None],
        commit: Commit,
        batch_id: int,
        metadata: str,
    ) -> LogEntry:
        """Run a write until the log shows it; raise StoppedError when another run's is there."""
        if self._own_after() is not None:
            raise StoppedError(Stop(verdict=Verdict.LOST_RACE))
        if batch_id != NO_BATCH:  # else the session may be others', too
            compute_state(session, self.path, self._version)
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                write()
                failure = None
            except Exception as error:
                failure = error
            own = self._own_after()
            if own is not None and self._is_mine(own, batch_id, commit):
                # Also after a failure: the commit may be there although its answer was lost.
                said = json.loads(metadata)
                self.tip = Tip(reached=commit.end, txn_version=commit.txn_version, said=said)
                self._leave_hint(metadata)
                return own
            if own is not None or failure is None or "DELTA_CONCURRENT_TRANSACTION" in str(failure):
                raise StoppedError(Stop(verdict=Verdict.LOST_RACE)) from failure
            retry = retry_of(failure)
            if retry is None or attempt == ATTEMPTS_MAX:
                raise failure
            self._on_retry(batch_id, retry)
            self._pause(retry.pause_s * attempt)
        raise AssertionError("unreachable")

    def _own_after(self) -> LogEntry | None:
        """The first own commit since the last look, past those of others."""
        entries = self._log.after(self._version)
        if entries:
            self._version = entries[-1].version
        return next((entry for entry in entries if entry.txn_version is not None), None)

    def _is_mine(self, entry: LogEntry, batch_id: int, commit: Commit) -> bool:
        meta = entry.metadata or {}
        mark = (meta.get("run"), meta.get("batch"), entry.txn_version)
        return mark == (self.link.run, batch_id, commit.txn_version)

    def _metadata(self, commit: Commit, batch_id: int, more: Mapping[str, Any] | None) -> str:
        return json.dumps(said_of(self.link, self.query_id, commit, batch_id, more))

    def _hint_path(self) -> str:
        # Delta's readers and VACUUM leave names alone that begin with an underscore.
        return f"{self.path}/_josefine/{self.link.pipeline}.{self.link.sink}.json"

    def _leave_hint(self, metadata: str) -> None:
        """Keep the ends beside the table, for the day when old log entries are gone. Not truth:
        written after the commit, so it may be one batch behind."""
        self._files.write_text(self._hint_path(), metadata)

    def _hint(self, found: Unreadable) -> str:
        text = self._files.read_text(self._hint_path())
        return f"{found.hint}; a copy written after a commit says: {text}" if text else found.hint
