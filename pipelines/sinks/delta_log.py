"""Reader of one sink's commits in a Delta log, from the log's JSON files.

No Spark job: a batch reads one or two small files; a start walks back from the newest commit past
those of others (OPTIMIZE, another sink) to the last own one. An own commit has our transaction id;
its offsets are in `userMetadata` of the same commit. At a RESTORE the walk jumps to the restored
version, because the table holds its rows again. A commit that hands a chain on (`handed_to`) is the
last one of its own name and the first one of the new name.
(Delta's PROTOCOL.md: delta log entries, commit provenance information, transaction identifiers.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from josefine_spark.base.topic_offsets import TopicOffsets, flat
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import HandedOn, Tip
from pipelines.exactly_once.other_chains import OtherChain, name_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = 1
"""The format number, under `josefine` in userMetadata; later versions write higher ones."""

UNDER_MAX = 20
"""Commits below the newest own one among which a RESTORE is looked for: those made meanwhile."""
_KEY_WITHIN = 5
"""Characters of a line before the name of its action: a bracket, a quote, blanks."""
_COMMIT_FILE = re.compile(r"(\d{20})\.json")
_UNDERSCORED = re.compile(r"_([a-z])")


class Files(Protocol):
    """The file system operations used here (`hadoop.HadoopFiles`, or a folder in a unit test)."""

    def read_text(self, path: str) -> str | None: ...

    def names(self, folder: str) -> list[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """The relevant part of one Delta commit. `txn_version` None: not a commit of this sink.

    `txns`: every transaction id in it, with its version. `at_ms`: its time by the writer's clock,
    since 1970; None if it has none. `engine`: what made it, in its own words.
    """

    version: int
    operation: str
    txn_version: int | None
    txns: Mapping[str, int]
    metadata: Mapping[str, Any] | None
    metrics: Mapping[str, int]
    restored_to: int | None = None
    at_ms: int | None = None
    engine: str = ""

    @property
    def handed_to(self) -> str | None:
        """The transaction id of the chain that continues after this commit under a new name."""
        return self.metadata.get("handed_to") if self.metadata else None

    def reached(self) -> TopicOffsets | None:
        """The offsets that a pipeline's commit reached; None if it has no readable ones."""
        meta = self.metadata
        if meta is None or meta.get("josefine") != FORMAT:
            return None
        try:
            return TopicOffsets(ends=flat(meta["end"]), topic_ids=dict(meta["topic_ids"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


def own_entry(
    app_id: str, number: int, said: Mapping[str, Any], rows: int, at_ms: int | None = None
) -> LogEntry:
    """A sink's commit into a target without a Delta log, in the form of an entry of one."""
    return LogEntry(
        version=number,
        operation="WRITE",
        txn_version=number,
        txns={app_id: number},
        metadata=said,
        metrics={"numOutputRows": rows},
        at_ms=at_ms,
    )


class DeltaLogReader:
    """The log of one table, read for one transaction id."""

    def __init__(self, files: Files, table_path: str, app_id: str) -> None:
        self._files = files
        self._log = f"{table_path}/_delta_log"
        self._app_id = app_id

    def versions(self) -> list[int]:
        """The versions whose commit files are still there, ascending."""
        matches = (_COMMIT_FILE.fullmatch(name) for name in self._files.names(self._log))
        return sorted(int(match[1]) for match in matches if match)

    def entry(self, version: int) -> LogEntry | None:
        """One commit; None if its file does not exist (not yet, or not any more)."""
        text = self._files.read_text(f"{self._log}/{version:020d}.json")
        return None if text is None else parse_entry(version, text, self._app_id)

    def after(self, version: int) -> list[LogEntry]:
        """The commits after `version`, oldest first. Costs one read if there is none."""
        entries = []
        while (entry := self.entry(version + 1)) is not None:
            entries.append(entry)
            version += 1
        return entries

    def last_tip(self) -> tuple[Tip | Unreadable | HandedOn | None, int]:
        """(the newest own commit, the newest version). None: the log has no own commit.

        The log reaches back to version 0, or to the last deleted entry. In the second case only
        `known_txn_versions` shows whether there was an own commit.
        """
        versions = self.versions()
        newest = versions[-1] if versions else -1
        txn_version = 0
        look_at = newest
        present = set(versions)
        while look_at in present:
            entry = self.entry(look_at)
            if entry is None:
                break
            txn_version = max(txn_version, entry.txn_version or 0)
            if entry.operation == "RESTORE":
                if entry.restored_to is None:
                    hint = f"version {look_at} restored the table to a time, not to a version"
                    return Unreadable(txn_version=txn_version, hint=hint), newest
                # RESTORE takes rows back, not transactions: Delta still skips a txnVersion that is
                # not above all of them.
                skipped = range(look_at - 1, entry.restored_to, -1)
                txn_version = max(txn_version, self._newest_txn_version(skipped))
                look_at = entry.restored_to
                continue
            if entry.txn_version is not None and entry.handed_to:
                return HandedOn(to=entry.handed_to, txn_version=txn_version), newest
            if entry.txn_version is not None or entry.handed_to == self._app_id:
                reached = entry.reached()
                if reached is None:
                    hint = f"version {look_at} has our transaction but no offsets that we can read"
                    return Unreadable(txn_version=txn_version, hint=hint), newest
                if entry.txn_version is None:
                    below = range(look_at - 1, -1, -1)
                    txn_version = max(txn_version, self._newest_txn_version(below))
                elif hint := self._why_rows_are_gone(entry):
                    return Unreadable(txn_version=txn_version, hint=hint), newest
                said = entry.metadata or {}
                return Tip(reached=reached, txn_version=txn_version, said=said), newest
            look_at -= 1
        if look_at >= 0 and newest >= 0:
            hint = f"log entries up to version {look_at} are gone"
            return Unreadable(txn_version=txn_version, hint=hint), newest
        nowhere = Tip(reached=TopicOffsets(), txn_version=txn_version) if txn_version else None
        return nowhere, newest

    def reaches_back(self) -> bool:
        """Whether no log entry was deleted."""
        return self.versions()[:1] in ([], [0])

    def own(self) -> Iterator[LogEntry]:
        """Own commits whose rows the table has, newest first, as far as the log reaches."""
        look_at: int | None = max(self.versions(), default=-1)
        while look_at is not None and (entry := self.entry(look_at)) is not None:
            if entry.txn_version is not None:
                yield entry
            look_at = entry.restored_to if entry.operation == "RESTORE" else look_at - 1

    def other_chains(self) -> dict[str, OtherChain | None]:
        """Transaction id → chain of another name whose rows the table has, as the log reaches back.

        None for an id that is no chain to continue: our own, one that was handed on, or a writer
        that is no pipeline.
        """
        newest: dict[str, LogEntry] = {}
        look_at = max(self.versions(), default=-1)
        while (entry := self.entry(look_at)) is not None:
            for app_id in (entry.handed_to, *entry.txns):
                if app_id:
                    newest.setdefault(app_id, entry)
            if entry.operation != "RESTORE":
                look_at -= 1
            elif entry.restored_to is None:
                break
            else:
                look_at = entry.restored_to
        return {app_id: self._other(app_id, entry) for app_id, entry in newest.items()}

    def _other(self, app_id: str, newest: LogEntry) -> OtherChain | None:
        name = name_of(app_id)
        if name is None or app_id == self._app_id or newest.handed_to not in (None, app_id):
            return None
        return OtherChain(name=name, reached=newest.reached())

    def queries(self) -> set[str]:
        """Spark's ids of the queries that made own commits, as far as the log reaches; also of
        commits whose rows a RESTORE took back."""
        entries = (self.entry(version) for version in self.versions())
        own = (e.metadata for e in entries if e and e.txn_version is not None and e.metadata)
        return {str(metadata.get("query", "")) for metadata in own}

    def _why_rows_are_gone(self, tip: LogEntry) -> str:
        """That a RESTORE took rows back while the commit `tip` was made, which Spark then put on
        top; "" if none did. A run stops at a RESTORE, so a later commit has another run's id."""
        for version in range(tip.version - 1, max(-1, tip.version - 1 - UNDER_MAX), -1):
            entry = self.entry(version)
            if entry is None or entry.txn_version is not None:
                break
            if entry.restored_to is not None:
                back = self._newest_own(range(version - 1, entry.restored_to, -1))
                if back is not None and _run_of(back) == _run_of(tip) is not None:
                    return (
                        f"version {version} restored the table to version {entry.restored_to} "
                        f"while version {tip.version} was written: the rows in between are gone"
                    )
                break
        return ""

    def _newest_own(self, versions: range) -> LogEntry | None:
        """The first own commit among descending log versions."""
        entries = map(self.entry, versions)
        return next((each for each in entries if each and each.txn_version is not None), None)

    def _newest_txn_version(self, versions: range) -> int:
        """That of the first own commit among descending log versions, 0 without one."""
        found = self._newest_own(versions)
        return (found.txn_version if found else None) or 0


def _run_of(entry: LogEntry) -> str | None:
    return (entry.metadata or {}).get("run")


def lines_of(text: str) -> Iterator[str]:
    """The actions of a commit file. Only a line feed ends one: a text in it may have U+2028, which
    `splitlines` takes for the end of a line."""
    return (line for line in text.split("\n") if line.strip())


def _actions_of(kind: str, text: str) -> Iterator[dict[str, Any]]:
    """The actions of one kind in a commit file. Other lines are not even split: a swap of a table
    of 100,000 files has 80 MB of them."""
    key, at = f'"{kind}"', -1
    while (at := text.find(key, at + 1)) >= 0:
        near = max(0, at - _KEY_WITHIN)
        start = text.rfind("\n", near, at) + 1
        if start or not near:  # the key of the line, not a text in it
            end = text.find("\n", at)
            yield json.loads(text[start : end if end >= 0 else None])[kind]


def parse_entry(version: int, text: str, app_id: str) -> LogEntry:
    """Parse the two relevant actions; a commit file may have thousands of others."""
    info: Mapping[str, Any] = next(_actions_of("commitInfo", text), {})
    txns = {txn["appId"]: int(txn["version"]) for txn in _actions_of("txn", text)}
    operation = str(info.get("operation", ""))
    restored = info.get("operationParameters", {}).get("version")
    return LogEntry(
        version=version,
        operation=operation,
        txn_version=txns.get(app_id),
        txns=txns,
        metadata=_metadata(info.get("userMetadata")),
        metrics=_metrics(info.get("operationMetrics", {})),
        restored_to=int(restored) if operation == "RESTORE" and restored is not None else None,
        at_ms=info.get("timestamp"),
        engine=str(info.get("engineInfo", "")),
    )


def _metadata(text: str | None) -> Mapping[str, Any] | None:
    try:
        value = json.loads(text) if text else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _metrics(values: Mapping[str, str]) -> dict[str, int]:
    """By the names of Delta for Spark; delta-rs writes `num_target_rows_inserted`."""
    found = {name: int(value) for name, value in values.items() if str(value).isdigit()}
    return {_UNDERSCORED.sub(lambda m: m[1].upper(), name): n for name, n in found.items()}


def known_txn_versions(spark: SparkSession, table_path: str) -> dict[str, int]:
    """Transaction id → version in the table's snapshot, which outlives the log entries.

    Costs a state reconstruction, so only for a log that does not reach back far enough.
    """
    known = newest_snapshot(spark, table_path).transactions().iterator()
    found = {}
    while known.hasNext():
        pair = known.next()
        found[str(pair._1())] = int(pair._2())
    return found


def newest_snapshot(spark: SparkSession, table_path: str) -> Any:
    """Delta's own snapshot of the newest version. Raises Spark's and py4j's errors; TypeError if
    another version of Delta lacks the class."""
    # Delta caches a snapshot of each table, which commits of delta-rs do not renew.
    spark.read.format("delta").load(table_path)
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, table_path)
    return log.unsafeVolatileSnapshot()
