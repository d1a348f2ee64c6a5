"""All partition logs of a broker, one directory each below the data directory.

Layout: `<topic>-<partition>/` with `partition.json` (format version, names, topic id). A new log
costs nothing: its directory is created at its first write, so a log that was never written has
none. It costs no fsync either: its identity is `partition.new.json` until any of the log must be
durable, which first syncs and renames it. So a log without `partition.json` never promised
anything: if a power loss left it without a readable identity, it starts empty. A deleted partition
is renamed to `~deleted.<number>` first (`~` is in no topic name) and removed afterwards, so its
name is free at once and the next start finishes a deletion that a crash interrupted.
"""

import errno
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock
from uuid import UUID

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.base.ids import TopicId, TopicPartition
from josefine_broker.base.ports import Files
from josefine_broker.base.rounds import Rounds, steps
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.flusher import Job, run_now
from josefine_broker.host.disk.listed_directory import ListedDirectory
from josefine_broker.host.log.group_sync import GroupSync
from josefine_broker.host.log.index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from josefine_broker.host.log.life_marks import NO_EPOCH, LifeMarks
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.log_state import (
    CHECKPOINT_SUFFIX,
    NEW_PARTITION_FILE,
    SNAPSHOT_SUFFIX,
    LogState,
)
from josefine_broker.host.log.recovery import RecoveryReport
from josefine_broker.host.log.removal import DELETED_PREFIX, Removal
from josefine_broker.host.log.segment import LOG_SUFFIX, Segment, stem_of
from josefine_broker.records.batch import OnBatch

PARTITION_FILE = "partition.json"
SYNCED_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, SNAPSHOT_SUFFIX, CHECKPOINT_SUFFIX)
"""Files that are stored only after a sync of their log."""
FIRST_LOG = stem_of("", 0).lstrip("/") + LOG_SUFFIX
"""The first segment of a log from which nothing was ever removed."""

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPartition:
    """A partition directory that was found at the start."""

    topic_partition: TopicPartition
    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDirectory:
    """The directory of a partition as it was just read: its files, and whose they are."""

    names: list[str]
    """Empty: there is no such directory."""
    owner: FoundPartition | None
    """None: nothing in it was promised."""

    def is_of(self, topic_id: TopicId) -> bool:
        return self.owner is not None and self.owner.topic_id == topic_id


class LogManager:
    """Opens, creates and deletes partition logs. One per broker."""

    def __init__(
        self,
        files: Files,
        *,
        schedule: Callable[[Job], None] = run_now,
        close_threads: int = 1,
        boot_id: str = "",
        group: GroupSync | None = None,
    ) -> None:
        """Records whether the last shutdown was clean and finishes interrupted deletions.

        A disk serves syncs of several threads together: 8 threads close 1,000 logs ten times as
        fast as one. `boot_id`: see LifeMarks. Without a `group`, `flush.messages=1` syncs within
        each append. Raises OSError.
        """
        self._close_threads = close_threads
        self._group = group
        self.files = self._files = files
        self.schedule = self._schedule = schedule
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._flushed: dict[TopicPartition, PartitionLog] = {}
        """Logs with `flush.messages` or `flush.ms` set."""
        self._rounds = Rounds[TopicPartition]()
        self._removal = Removal(files, schedule)
        self._made = self._made_durable = 0
        """Number of directories created, and the number at the last sync of the root."""
        self._root = Lock()
        names = files.list("")
        self._directories = set(names)
        """Names in the root, of partitions and others: a new partition is known to have none."""
        self.first_start = not any(self._is_partition(name) for name in names)
        self.marks = LifeMarks(files, boot_id)
        self.clean_shutdown = self.marks.was_clean or self.first_start
        for name in names:  # a crash interrupted these deletions
            if name.startswith(DELETED_PREFIX):
                files.remove_tree(name)

    def _is_partition(self, name: str) -> bool:
        return not name.startswith("~") and any(
            each in (PARTITION_FILE, NEW_PARTITION_FILE) for each in self._files.list(name)
        )

    @property
    def previous_epoch(self) -> int:
        """See LifeMarks."""
        return self.marks.previous_epoch

    @property
    def has_everything(self) -> bool:
        """Whether all writes of the last process are present (required by KIP-966): it stopped
        cleanly, or was killed and the machine kept running."""
        return self.clean_shutdown or self.previous_epoch != NO_EPOCH

    @property
    def may_lack_unsynced(self) -> bool:
        """The machine went down, or this is unknown: unsynced data may be missing."""
        return not self.has_everything

    def found(self) -> list[FoundPartition]:
        """Every partition on disk. Raises CorruptData naming a `partition.json` that is damaged."""
        every = [self._identity(name) for name in self._files.list("") if self._is_partition(name)]
        return [each for each in every if each is not None]

    def found_beside(self, names: Collection[str]) -> tuple[list[FoundPartition], bool]:
        """Partitions in directories other than these, and whether some directories do not identify
        their partition."""
        found = []
        for name in self._files.list(""):
            if name not in names and name.rpartition("-")[2].isdigit():
                try:
                    found.append(self._identity(name))
                except CorruptData:
                    found.append(None)
        known = [each for each in found if each is not None]
        return known, len(known) < len(found)

    @property
    def directories_made(self) -> int:
        """Created by this process so far: directories of logs that were written first."""
        return self._made

    def has_directory(self, topic_partition: TopicPartition) -> bool:
        return bool(self._files.list(str(topic_partition)))

    def _identity(self, directory: str) -> FoundPartition | None:
        return self._owner(directory, self._files.list(directory))

    def _owner(self, directory: str, names: list[str]) -> FoundPartition | None:
        """The owner of a directory with these files; None if nothing in it was promised. Raises
        CorruptData."""
        if PARTITION_FILE in names:
            return self._read_identity(directory, PARTITION_FILE)
        synced = [name for name in names if name.endswith(SYNCED_SUFFIXES)]
        if synced:
            raise CorruptData(
                f"{directory}/{PARTITION_FILE} is missing, while {synced[0]} proves that the log "
                "was synced: restore it"
            )
        logs = [name for name in names if name.endswith(LOG_SUFFIX)]
        if NEW_PARTITION_FILE not in names or (logs and logs[0] != FIRST_LOG):
            return None  # a power loss took the name of the identity or of the first segment
        try:
            return self._read_identity(directory, NEW_PARTITION_FILE)
        except CorruptData:
            return None

    def _read_identity(self, directory: str, name: str) -> FoundPartition:
        path = f"{directory}/{name}"
        file = self._files.open(path)
        try:
            data = file.read_at(0, file.size())
        finally:
            file.close()
        try:
            fields = json.loads(data)
            if fields["version"] != FORMAT_VERSION:
                raise CorruptData(
                    f"{path}: format version {fields['version']}; this code reads {FORMAT_VERSION}"
                )
            topic_partition = TopicPartition(fields["topic"], fields["partition"])
            topic_id = TopicId(UUID(fields["topic_id"]))
        except (ValueError, KeyError, TypeError) as error:  # also for bytes that are not text
            raise CorruptData(f"{path}: {error!r}") from error
        if str(topic_partition) != directory:
            raise CorruptData(f"{path} belongs to {topic_partition}")
        return FoundPartition(topic_partition=topic_partition, topic_id=topic_id)

    def look(self, topic_partition: TopicPartition) -> FoundDirectory:
        """Read the partition's directory and the identity in it. Raises CorruptData."""
        directory = str(topic_partition)
        names = self._files.list(directory) if directory in self._directories else []
        owner = self._owner(directory, names) if names else None
        return FoundDirectory(names=names, owner=owner)

    def adopt(self, topic_partition: TopicPartition, log: PartitionLog) -> None:
        """Add a log from `recover_log` to the broker's open logs."""
        assert topic_partition not in self._logs, f"{topic_partition} is open"
        self._logs[topic_partition] = log
        if self._group is not None:
            log.group_syncs(partial(self._group.want, topic_partition))
        self.configure(topic_partition, log.config)

    def recover_log(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        now_ms: int,
        *,
        on_snapshot: Callable[[bytes], None] | None = None,
        on_batch: OnBatch | None = None,
        is_damaged: bool = False,
        is_verified: bool = False,
        keeps_tail: bool = False,
        found: FoundDirectory | None = None,
    ) -> PartitionLog:
        """The partition's log, opened and recovered, or created; on any thread: to be adopted or
        abandoned. A directory left by an earlier topic of the same name (another id) is deleted
        first. `is_damaged`, `is_verified` and `keeps_tail`: see PartitionLog. `found`: what `look`
        has just returned. Raises CorruptData, OSError."""
        directory = str(topic_partition)
        found = found or self.look(topic_partition)
        # A topic deleted and created again has a new id: old records must not appear in it.
        is_ours = found.is_of(topic_id)
        if found.names and not is_ours:
            self._remove(directory)
        if not is_ours:
            return self._create(directory, topic_partition, topic_id, config)
        files = ListedDirectory(self._files, directory, found.names)
        settle = None
        if PARTITION_FILE not in found.names:
            self._made += 1
            # The identity gets another name, by the files below.
            settle = partial(self._settle, directory, files.forget)
        log = PartitionLog.open(
            files,
            directory,
            config,
            now_ms,
            self.clean_shutdown,
            on_snapshot=on_snapshot,
            on_batch=on_batch,
            settle=settle,
            schedule=self._schedule,
            is_damaged=is_damaged,
            is_verified=is_verified,
            keeps_tail=keeps_tail,
        )
        files.forget_for_good()
        return log

    def _create(
        self,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
    ) -> PartitionLog:
        """A new log. Thousands may be created in one go on the event loop: not one system call."""
        make = _Once(partial(self._make, directory, topic_partition, topic_id))
        report = RecoveryReport(
            directory=directory,
            clean_shutdown=self.clean_shutdown,
            log_start_offset=0,
            log_end_offset=0,
        )
        segment = Segment.create_later(self._files, directory, make)
        state = LogState(self._files, directory, partial(self._settle, directory, make))
        return PartitionLog(
            self._files, directory, config, [segment], report, state, self._schedule
        )

    def _make(self, directory: str, topic_partition: TopicPartition, topic_id: TopicId) -> None:
        """Create the directory of a new log, with its identity. Raises OSError."""
        fields = {
            "version": FORMAT_VERSION,
            "topic": topic_partition.topic,
            "partition": topic_partition.partition,
            "topic_id": str(topic_id),
        }
        self._files.make_directory(directory)
        self._directories.add(directory)
        with self._root:
            self._made += 1
        file = self._files.open(f"{directory}/{NEW_PARTITION_FILE}", create=True)
        try:
            if file.size():
                file.truncate(0)  # remains of a failed attempt
            file.write_at_end((json.dumps(fields).encode() + b"\n",))
        finally:
            file.close()

    def _settle(self, directory: str, make: Callable[[], None] | None = None) -> None:
        """Make a log's directory and identity durable, before anything in it is durable.

        On the log's thread or the flusher's. Raises OSError.
        """
        if make is not None:
            make()
        file = self._files.open(f"{directory}/{NEW_PARTITION_FILE}")
        try:
            file.sync()
        except OSError as error:  # even when full: the pages of a failed sync are lost
            raise OSError(errno.EIO, f"sync failed: {error}") from error
        finally:
            file.close()
        with self._root:  # one sync covers all directories created before it
            if self._made_durable < self._made:
                made = self._made
                self._files.sync_directory("")
                self._made_durable = made
        self._files.rename(f"{directory}/{NEW_PARTITION_FILE}", f"{directory}/{PARTITION_FILE}")

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self._logs.get(topic_partition)

    def __iter__(self) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        return iter(self._logs.items())

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def recovery_lines(self) -> list[str]:
        """One line per opened partition that needed recovery."""
        lines = (log.recovery_report.line for log in self._logs.values())
        return [line for line in lines if line is not None]

    def delete(self, topic_partition: TopicPartition) -> None:
        """Remove a partition from disk, open or not; does nothing when it is missing."""
        self._flushed.pop(topic_partition, None)
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            log.abandon_soon()
        directory = str(topic_partition)
        if directory in self._directories and self._files.list(directory):
            self._remove(directory)

    def _remove(self, directory: str) -> None:
        """A power loss may bring it back: it then belongs to an older topic, or none, and is
        removed."""
        self._removal.remove(directory)
        self._directories.discard(directory)

    def remove_strays(self, keep: Collection[TopicPartition]) -> int:
        """Remove partitions on disk that this broker no longer hosts; returns their number.

        Only directories with a readable identity. A damaged one is left to a person, and one that
        cannot be removed to the next start.
        """
        removed = 0
        kept = {str(each) for each in keep}
        try:
            names = self._files.list("")
        except OSError:  # no file handle is left
            return 0
        for name in names:
            if name in kept:
                continue  # an identity that names another partition is damaged
            try:
                found = None if name.startswith("~") else self._identity(name)
                if found is not None and found.topic_partition not in keep:
                    self.delete(found.topic_partition)
                    removed += 1
            except (CorruptData, OSError):
                continue
        return removed

    def flush_due(self, now_ms: int) -> int:
        """Schedule the flushes that `flush.ms` requires; returns their number."""
        if self.marks.is_marked and self._has_failed(self._rounds.next(self._logs)):
            self.marks.unmark()
        return sum(log.flush_if_due(now_ms) for log in self._flushed.values())

    def _has_failed(self, some: Iterable[TopicPartition]) -> bool:
        logs = map(self._logs.get, some)
        return any(log is not None and log.failure for log in logs)

    def configure(self, topic_partition: TopicPartition, config: LogConfig) -> None:
        """Apply a new configuration to an open log."""
        log = self._logs[topic_partition]
        log.configure(config)
        if config.flush_ms is None and config.flush_messages is None:
            self._flushed.pop(topic_partition, None)
        else:
            self._flushed[topic_partition] = log

    def apply_retention(
        self, now_ms: int, high_watermark: Callable[[TopicPartition], int]
    ) -> Iterator[int]:
        """Remove expired segments of every log, in steps; yields the number of each. A log that
        fails is skipped: its `failure`, or its next append, has the reason."""
        for each in steps(self._logs):
            if each is not None:
                topic_partition, log = each
                try:
                    yield log.apply_retention(now_ms, high_watermark(topic_partition))
                except KafkaError:
                    continue

    def close(
        self,
        snapshot: Callable[[TopicPartition], bytes | None] | None = None,
        broker_epoch: int = NO_EPOCH,
    ) -> None:
        """Sync and close every log; the marker is written only when all of that succeeded and no
        log had failed before.

        Stop the flusher first. Raises the first OSError, after every log is closed.
        """
        had_failed = any(log.failure for log in self._logs.values())
        closings = [
            partial(_close, log, None if snapshot is None else snapshot(topic_partition))
            for topic_partition, log in self._logs.items()
        ]
        self._logs.clear()
        self._flushed.clear()
        if self._close_threads > 1:
            with ThreadPoolExecutor(self._close_threads) as pool:
                outcomes = list(pool.map(lambda closing: closing(), closings))
        else:
            outcomes = [closing() for closing in closings]
        for failure in outcomes:
            if failure is not None:
                raise failure
        if had_failed:
            self.marks.unmark()
        else:
            self.marks.stopped(broker_epoch)


class _Once:
    """A call made once, by the first thread that needs it; repeated after a failure."""

    __slots__ = ("_call", "_lock")

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call
        self._lock = Lock()

    def __call__(self) -> None:
        with self._lock:
            if self._call is not None:
                self._call()
                self._call = None


def _close(log: PartitionLog, snapshot: bytes | None) -> OSError | None:
    try:
        log.close(snapshot)
    except OSError as error:
        return error
    return None
