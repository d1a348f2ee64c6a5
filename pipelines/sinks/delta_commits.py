"""Chained commits into one Delta table: rows, both offset maps and the next txnVersion at once.

Rules: a commit counts only when the log shows it with this run's id, because Delta silently skips a
write whose txnVersion is not higher. txnVersion is the chain's last one + 1, never Spark's batch id
(it restarts at 0 with a lost checkpoint). A commit of this chain by another run is a reason to
stop. An attempt that failed for a reason in `retry_policy` and left no commit is repeated. Between
batches the tip stays in memory, so a batch costs a few reads of the log. The first one is of the
newest commit known: another driver may replace it in S3, and another table in the same folder does
not have it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.base import failpoints
from pipelines.base.quoting import quoted
from pipelines.config.output_paths import in_s3
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import Commit, HandedOn, Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import OtherChain, name_of
from pipelines.model.retry_policy import Retry, retry_of
from pipelines.sinks.commits import (
    NO_BATCH,
    Attempts,
    Link,
    StoppedError,
    hand_over,
    is_ours,
    lost_race,
    said_of,
)
from pipelines.sinks.delta_log import DeltaLogReader, Files, LogEntry, known_txn_versions
from pipelines.spark.files import HadoopFiles
from pipelines.transforms.aggregate import Merge

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PREFIX = "spark.databricks.delta.write."
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_RESET = _PREFIX + "txnVersion.autoReset.enabled"
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class TextFiles(Files, Protocol):
    """The files of the log and of the chain's hint."""

    def write_text(self, path: str, text: str) -> None: ...


class DeltaChain:
    """One sink's chain in one table. Mutable: the tip, the last version seen and its entry."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        link: Link,
        on_retry: Callable[[int, Retry], None] = lambda batch_id, retry: None,
        pause: Callable[[float], None] = time.sleep,
        files: TextFiles | None = None,
    ) -> None:
        """`files`: those of the table's folder; None: by Hadoop."""
        self.path = path
        self.link = link
        self.tip: Tip | None = None
        self.query_id = ""
        self._app_id = link.app_id
        self._files: TextFiles = files or HadoopFiles(spark)
        self._spark = spark
        self._attempts = Attempts(on_retry, pause)
        self._log = DeltaLogReader(self._files, path, self._app_id)
        self._version = -1
        self._is_in_s3 = in_s3(path)
        self._seen: LogEntry | None = None

    def load(self) -> Tip | Unreadable | HandedOn | None:
        """Find the last own commit. Only after a Tip can the chain continue."""
        found, self._version = self._log.last_tip()
        if isinstance(found, Unreadable) and found.txn_version == 0:
            # Old log entries were deleted, so the log cannot be read back to version 0.
            known = self._known().get(self._app_id)
            found = None if known is None else Unreadable(txn_version=known, hint=self._hint(found))
        if isinstance(found, Tip) and found.txn_version == 0 and not self._log.reaches_back():
            # Taken over from another name; an old commit of this one may be deleted from the log.
            found = replace(found, txn_version=self._known().get(self._app_id, 0))
        self.tip = found if isinstance(found, Tip) else None
        self._seen = self._log.entry(self._version)
        return found

    def is_there(self) -> bool:
        """Whether the folder is a table with any commit."""
        return bool(self._log.versions())

    def others(self) -> list[OtherChain]:
        """The chains of other names in this table; without offsets if the log entries are gone."""
        seen = self._log.other_chains()
        found = [other for other in seen.values() if other]
        if self._log.reaches_back():
            return found
        names = (name_of(app_id) for app_id in self._known() if app_id not in seen)
        return found + [OtherChain(name=name, reached=None) for name in names if name]

    @property
    def version(self) -> int:
        """The newest version that was looked at; -1 before the first one."""
        return self._version

    def queries(self) -> set[str]:
        """Spark's ids of the queries that made this chain's commits."""
        return self._log.queries()

    def take_over(self, other: OtherChain) -> None:
        """Continue the chain of another name: see `hand_over`. Raises StoppedError."""
        old = self.link.under(other.name)
        chain = DeltaChain(
            self._spark, self.path, old, self._attempts.on_retry, self._attempts.pause
        )
        hand_over(chain, self._app_id)

    def move(self, commit: Commit, **more: Any) -> None:
        """Commit offsets without rows; `more` is added to the metadata. Raises StoppedError."""
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
        """Append rows; an empty frame still commits the offsets. `more`: added to the metadata."""
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

    def add(
        self,
        add: Callable[[int, str], None],
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any] | None = None,
    ) -> LogEntry:
        """Commit files that exist, without Spark. `add`: makes the commit onto a version, with the
        metadata. `more`: added to the metadata."""
        metadata = self._metadata(commit, batch_id, more)

        def write() -> None:
            self._refuse_replaced()  # attempts wait in between
            add(self._version, metadata)

        return self._committed(None, write, commit, batch_id, metadata)

    def repeat(self, batch_id: int, do: Callable[[], object]) -> None:
        """A step before the commit that is safe to repeat, as often as an attempt of a commit."""
        self._attempts.repeat(batch_id, do, retry_of)

    def half_write(self, frame: DataFrame) -> None:
        """For failpoints: write data files without the log entry that names them."""
        frame.write.format("parquet").mode("append").save(self.path)

    def merge(
        self,
        frame: DataFrame,
        how: Merge,
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any] | None = None,
    ) -> LogEntry:
        """Merge rows by key. `more` is added to the metadata.

        MERGE takes the transaction pair only from session settings. They are set on the query's
        own session and removed after the call: with a leftover pair Delta skips later writes.
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
        inserted: dict[str, str | Column] = {
            quoted(name): f"s.{quoted(name)}" for name in how.columns
        }
        same = " AND ".join(f"t.{quoted(key)} <=> s.{quoted(key)}" for key in how.keys)
        condition = how.on or same

        def write() -> None:
            target = DeltaTable.forPath(session, self.path).alias("t")
            # In each attempt: the rows of an SCD2 merge are made from the table as it is now.
            rows = how.source(frame, target.toDF()) if how.source else frame
            merge: Any = target.merge(failpoints.disturbed(rows).alias("s"), condition)
            if how.delete_when is not None:
                merge = merge.whenMatchedDelete(how.delete_when)
            changed: dict[str, str | Column] = {quoted(c): sql for c, sql in how.update.items()}
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
        session: SparkSession | None,
        write: Callable[[], None],
        commit: Commit,
        batch_id: int,
        metadata: str,
    ) -> LogEntry:
        """Run a write until the log shows it; raise StoppedError if another run has committed.
        `session`: that of a write by Spark."""
        self._refuse_replaced()
        if self._own_after() is not None:
            raise lost_race()
        # Without a batch the session may be shared with others.
        if session is not None and batch_id != NO_BATCH:
            compute_state(session, self.path, self._version)

        def look(failure: Exception | None) -> LogEntry | None:
            # In S3 others may have replaced it meanwhile; after a failure another attempt follows.
            if failure is not None or self._is_in_s3:
                self._refuse_replaced()
            own = self._own_after()
            said = (own.metadata or {}) if own else {}
            made = (batch_id, commit.txn_version)
            if own is not None and is_ours(said, own.txn_version, self.link, made):
                stored = json.loads(metadata)
                self.tip = Tip(reached=commit.end, txn_version=commit.txn_version, said=stored)
                self._leave_hint(metadata)
                return own
            if own is not None or "DELTA_CONCURRENT_TRANSACTION" in str(failure):
                raise lost_race() from failure
            return None

        return self._attempts.commit(batch_id, write, look)

    def _own_after(self) -> LogEntry | None:
        """The first own commit since the last read of the log, past those of others. What comes
        after it is read the next time: another run may have continued the chain there already.
        Raises StoppedError for a RESTORE: rows that this run has committed are gone with it, and a
        further commit would hide that from the next start."""
        entries = self._log.after(self._version)
        own = next((entry for entry in entries if entry.txn_version is not None), None)
        if entries:
            self._seen = own or entries[-1]
            self._version = self._seen.version
        if any(entry.operation == "RESTORE" for entry in entries):
            detail = "it was restored while it was written"
            raise StoppedError(Stop(verdict=Verdict.TABLE_BEHIND, detail=detail))
        return own

    def _refuse_replaced(self) -> None:
        """Raises StoppedError if the newest commit that was looked at is not as it was: the rows
        below it, or its own, are not in the table, so a further commit would leave a gap, or have
        another run's rows twice.

        A table may be deleted, restored from a copy or made again. Delta's LogStore for S3 looks
        for a version's file and then writes it without a condition: a driver that looked before
        this run's commit replaces it."""
        seen = self._seen
        now = self._log.entry(seen.version) if seen else None
        if seen is None or now == seen:
            return
        if now is None:
            # A cleanup of the log deletes old entries, but never the newest one.
            if max(self._log.versions(), default=-1) > seen.version:
                return
            detail = "it was deleted or restored from a copy while it was written"
        elif now.txn_version is not None:
            raise lost_race()
        elif seen.txn_version is not None:
            detail = f"another writer has replaced its version {seen.version}, a commit of this run"
        elif self._is_in_s3:
            return
        else:
            detail = "it was deleted and created again while it was written"
        raise StoppedError(Stop(verdict=Verdict.TABLE_BEHIND, detail=detail))

    def _metadata(self, commit: Commit, batch_id: int, more: Mapping[str, Any] | None) -> str:
        return json.dumps(said_of(self.link, self.query_id, commit, batch_id, more))

    def _hint_path(self) -> str:
        # Delta's readers and VACUUM ignore names that start with an underscore.
        return f"{self.path}/_josefine/{self.link.pipeline}.{self.link.sink}.json"

    def _leave_hint(self, metadata: str) -> None:
        """Store the end offsets next to the table, for a message after old log entries are gone.
        Never trusted: it is written after the commit, so a crash leaves it one batch too old, as
        does a full disk."""
        with suppress(OSError):
            self._files.write_text(self._hint_path(), metadata)

    def _hint(self, found: Unreadable) -> str:
        text = self._files.read_text(self._hint_path())
        return f"{found.hint}; a copy written after a commit: {text}" if text else found.hint


def compute_state(session: SparkSession, path: str, version: int) -> None:
    """Compute the state of the table at `path`, for the next commit, if Delta's cached snapshot has
    `version`, the newest one.

    Delta (4.4) computes the whole state of a table for each commit with a transaction, to look up
    one number. That is most of the time of a small commit, partly for code that Spark generates
    again in every task, over a few hundred rows. So the state is computed here first, without
    generated code: the snapshot caches it, and the following commit finds it there. The call is one
    of Delta's own readers (`Snapshot.transactions`); its result is not used.

    If others write the table, Delta may hold another snapshot, which the commit will not use.
    `session`: not used by others meanwhile. Failures are left to the commit to report."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # TypeError: another version of Delta may lack the class.
    with suppress(Py4JError, PySparkException, TypeError):
        jvm: Any = session._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)
        snapshot = log.unsafeVolatileSnapshot()
        if snapshot.version() == version:
            with _interpreted(session):
                snapshot.transactions()


@contextmanager
def _interpreted(session: SparkSession) -> Iterator[None]:
    before: dict[str, Any] = {name: session.conf.get(name, None) for name in _INTERPRETED}
    try:
        for name, value in _INTERPRETED.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)
