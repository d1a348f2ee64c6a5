"""The partitions of this broker: a log and its decision logic, opened and stopped together.

Rules: recovery replays a log's batch headers into its producers' state, so a retry is recognized
after a crash too. The leader epochs come from their checkpoint and from the batches themselves, the
high watermark from its checkpoint, limited by the log end.

Logs are recovered before the broker registers, as in Kafka, because the registration states what
may be believed of each (`metadata/log_completeness.py`). The statement is based on the disk alone,
not on an image that may be stale: on recovery, on the high watermarks last stored, and on the
directories. A partition without a directory is missing if it had records when those were stored,
otherwise empty. No log is created, and no high watermark stored, before the registration is in the
image. A log that later turns out worse than stated is not hosted: a restart states it again.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from uuid import UUID

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.base.ids import LeaderEpoch, TopicId, TopicPartition
from josefine_broker.base.ports import Clock, Files
from josefine_broker.base.rounds import steps
from josefine_broker.engine.hosted import NOWHERE, HostedPartition
from josefine_broker.engine.metadata.log_completeness import Completeness, LogClaims
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.metadata_quorum.apply_committed import ToHost
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.producers import ProducerState
from josefine_broker.host.log.cleaner import Candidate
from josefine_broker.host.log.damage import DamagedLogs
from josefine_broker.host.log.high_watermarks import HighWatermarks, Key
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.log_manager import FoundDirectory, LogManager
from josefine_broker.host.log.recovered_epochs import note_epoch, recovered_epochs
from josefine_broker.host.log.repairable import RepairableLog, note_lost_power
from josefine_broker.records.batch import BatchHeader
from josefine_broker.records.crc import Buffer

NEW_STORED_MS = 1_000
"""A newly written partition is listed in the high watermark checkpoint within about this time:
until then, the loss of its directory would look like a directory that never existed."""

ArchivedEnd = Callable[[TopicPartition], int]

log = logging.getLogger(__name__)


class _Recovered(NamedTuple):
    """A recovered log, with the state of its partition that recovery found."""

    topic_id: UUID
    log: PartitionLog
    producers: ProducerState
    epochs: LeaderEpochs
    better_claim: Completeness | None = None
    """Its completeness, if this process has claimed that it is unreadable."""


class _Stored(NamedTuple):
    """When the high watermarks were stored last, and how many directories were made by then."""

    made: int
    at_ms: int


class Hosting:
    """Implements `engine.ports.LogsPort` over the log manager."""

    def __init__(
        self, manager: LogManager, clock: Clock, on_opened: Callable[[], None] = lambda: None
    ) -> None:
        """`on_opened` is called for each log, on the thread that opens it."""
        self._on_opened = on_opened
        self._manager = manager
        self._clock = clock
        self._high_watermarks = HighWatermarks(manager.files)
        self._hosted: dict[TopicPartition, tuple[Partition, PartitionLog]] = {}
        self._ids: dict[TopicPartition, UUID] = {}
        self._prepared: dict[TopicPartition, _Recovered] = {}
        self._epochs_due: dict[TopicPartition, PartitionLog] = {}
        self._claims = LogClaims()
        self._only_replicas: set[Key] = set()
        """Partitions of which no other broker had a copy when this process registered."""
        self._kept: dict[Key, int] = {}
        """High watermarks of partitions that could not be opened."""
        self._is_followed = False
        """The image knows this process, and its partitions are open."""
        self._stored = _Stored(0, 0)
        self.damaged = DamagedLogs()

    def prepare(self, wanted: Iterable[ToHost]) -> LogClaims:
        """Recover the logs that are about to be opened, on the caller's thread: after a crash this
        may read gigabytes. Returns what may be believed of each log on this disk; `open` reports
        logs that cannot be opened. Raises OSError when the data directory cannot be listed."""
        logs: dict[Key, Completeness] = {}
        names = set()
        for tp, topic_id, settings, is_only_replica in wanted:
            names.add(str(tp))
            if is_only_replica:
                self._only_replicas.add((topic_id, tp.partition))
            found = self._prepare(tp, topic_id, settings, is_only_replica=is_only_replica)
            if found is not None:
                logs[topic_id, tp.partition] = found
        found_beside, has_hollow = self._manager.found_beside(names)
        for found_partition in found_beside:
            # The image does not list it yet, so it was not recovered.
            index = found_partition.topic_partition.partition
            logs[found_partition.topic_id, index] = Completeness.UNSYNCED
        is_explained = has_hollow and self._manager.may_lack_unsynced
        gone = Completeness.UNSYNCED if is_explained else Completeness.MISSING
        for key in self._high_watermarks:
            logs.setdefault(key, gone)
        default = Completeness.COMPLETE if self._high_watermarks.is_there else Completeness.MISSING
        logs = {key: each for key, each in logs.items() if each is not default}
        self._claims = LogClaims(default=default, logs=logs)
        return self._claims

    def _prepare(
        self, tp: TopicPartition, topic_id: UUID, settings: TopicSettings, *, is_only_replica: bool
    ) -> Completeness | None:
        """Recover one log; returns what may be believed of it, None if there is none."""
        try:
            found = self._manager.look(tp)
            if not found.is_of(TopicId(topic_id)):
                is_hollow = self._manager.may_lack_unsynced and self._manager.has_directory(tp)
                return Completeness.UNSYNCED if is_hollow else None
            recovered = self._prepared[tp] = self._recover(tp, topic_id, settings.log, found=found)
        except (CorruptData, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.EIO:
                return Completeness.UNSYNCED
            if is_only_replica:
                return Completeness.UNREADABLE
            return self._prepare_damaged(tp, topic_id, settings)
        return self._claimed(recovered, tp.partition)

    def _claimed(self, recovered: _Recovered, index: int) -> Completeness:
        """A log whose end was cut off may lead, if no replica is better: it asks the others for the
        end first (`engine/replicas/catching_up.py`). An only replica has nobody to ask."""
        key = recovered.topic_id, index
        found = self._judged(recovered, index)
        if found is not Completeness.SHORTENED or key in self._only_replicas:
            return found
        return Completeness.UNSYNCED

    def _prepare_damaged(
        self, tp: TopicPartition, topic_id: UUID, settings: TopicSettings
    ) -> Completeness:
        """Open a damaged log that other replicas can repair. It is in doubt: an intact one leads,
        if there is one. If none is, this one repairs its log before it serves."""
        try:
            recovered = self._recover(tp, topic_id, settings.log, is_damaged=True)
        except (CorruptData, OSError):
            return Completeness.UNREADABLE
        self._prepared[tp] = recovered
        if recovered.log.recovery_report.completeness is Completeness.MISSING:
            return Completeness.MISSING
        return self._claimed(recovered, tp.partition).or_worse(Completeness.UNSYNCED)

    def _judged(self, recovered: _Recovered, index: int) -> Completeness:
        """The result of recovery, compared with the high watermark last stored.

        A power loss explains missing records: then the log is only unsynced. It does not excuse a
        log that ends below its own high watermark: committed records are lost. The only copy leads
        all the same, because no other replica can have more.
        """
        key = recovered.topic_id, index
        found = recovered.log.recovery_report.completeness
        lacks_committed = recovered.log.log_end_offset < self._high_watermarks.get(*key)
        if lacks_committed:
            found = found.or_worse(Completeness.SHORTENED)
        if found is Completeness.COMPLETE or not self._manager.may_lack_unsynced:
            return found
        if lacks_committed and key not in self._only_replicas:
            return Completeness.SHORTENED
        return Completeness.UNSYNCED

    @property
    def files(self) -> Files:
        """The disk of the logs."""
        return self._manager.files

    @property
    def prepared(self) -> int:
        """Logs recovered and not opened yet."""
        return len(self._prepared)

    def open(
        self, tp: TopicPartition, topic_id: UUID, settings: TopicSettings, leader_epoch: int
    ) -> HostedPartition:
        recovered = self._prepared.pop(tp, None)
        if recovered is not None and recovered.topic_id != topic_id:
            recovered.log.abandon()
            recovered = None
        key = (topic_id, tp.partition)
        known = self._high_watermarks.get(*key)
        if recovered is None:
            if key in self._high_watermarks:
                self._kept[key] = known
            try:
                recovered = self._recover_late(tp, topic_id, settings)
            except CorruptData:
                self._kept[key] = known  # the log exists: if it is removed, it counts as missing
                raise
            self._kept.pop(key, None)
        self._check_epochs(tp, recovered, leader_epoch)
        _, partition_log, producers, epochs, _ = recovered
        ends_in_damage = self._ends_in_damage(recovered, key, known)
        partition_log.config = settings.log
        partition_log.snapshot_source = lambda: self._snapshot(tp)
        self._manager.adopt(tp, partition_log)
        lost_power = note_lost_power(partition_log, is_recent=self._manager.may_lack_unsynced)
        shown = RepairableLog(self._manager.files, partition_log, lost_power=lost_power)
        partition_log.damage.join(self.damaged, tp, shown)
        start, end = partition_log.log_start_offset, partition_log.log_end_offset
        partition = Partition(producers, epochs, min(max(known, start), end))
        self._hosted[tp] = (partition, partition_log)
        self._ids[tp] = topic_id
        if partition_log.damage.lacks_batches:
            partition.damaged()
        return HostedPartition(
            topic_id,
            partition,
            partition_log,
            settings,
            ends_in_damage=ends_in_damage,
            lost_from=partition_log.recovery_report.unsynced_from if lost_power else NOWHERE,
            better_claim=recovered.better_claim,
        )

    def _ends_in_damage(self, recovered: _Recovered, key: Key, high_watermark: int) -> bool:
        """Whether acknowledged records may be lost at the end of this log, but not by a power
        failure: then no replica may be left out when it asks for them. That stays on disk until it
        has asked, or was in sync again."""
        its_log, state = recovered.log, recovered.log.state
        found = its_log.recovery_report.completeness
        lacks_committed = its_log.log_end_offset < high_watermark
        is_cut = found is Completeness.SHORTENED and self._manager.has_everything
        if key not in self._only_replicas and (lacks_committed or is_cut):
            if found is not Completeness.SHORTENED:
                with suppress(OSError):  # of no more use than the high watermark was
                    state.settle()
                    state.store_completeness(Completeness.SHORTENED)
            return True
        if found is not Completeness.COMPLETE:
            state.forget_completeness()  # the image has recorded it
        return False

    def _check_epochs(self, tp: TopicPartition, recovered: _Recovered, newest: int) -> None:
        """A batch with a leader epoch that does not exist yet is damaged: the checksum of a batch
        does not cover its epoch. The log is cut before it, once the image knows that it is shorter.
        Raises CorruptData, OSError."""
        its_log, epochs = recovered.log, recovered.epochs
        wrong = next((each for each in epochs.starts if each.epoch > newest), None)
        if wrong is None:
            return
        claimed = self._claims.of((recovered.topic_id, tp.partition))
        if claimed is Completeness.COMPLETE:
            its_log.state.settle()
            its_log.state.store_completeness(Completeness.SHORTENED)
            its_log.abandon()
            raise CorruptData(
                f"{tp} has batches of leader epoch {wrong.epoch} from offset {wrong.start_offset}, "
                f"but the newest is {newest}: the log is damaged there. Restart this broker to "
                "have the rest copied from another replica"
            )
        try:
            its_log.truncate_to(wrong.start_offset)
        except KafkaError as error:
            raise OSError(errno.EIO, str(error)) from error
        epochs.truncate_end(its_log.log_end_offset)
        now_ms, producers = self._clock.now_ms(), recovered.producers
        producers.clear()
        its_log.replay(
            producers.restore, lambda header, batch: producers.take(header, batch, now_ms)
        )

    def _recover_late(
        self, tp: TopicPartition, topic_id: UUID, settings: TopicSettings
    ) -> _Recovered:
        """A log that was missing, or not opened, when this process registered. Raises CorruptData,
        OSError."""
        key = (topic_id, tp.partition)
        claimed = self._claims.of(key)
        is_doubted = claimed is not Completeness.COMPLETE and key not in self._only_replicas
        try:
            recovered = self._recover_doubted(tp, topic_id, settings.log, is_doubted=is_doubted)
        except OSError as error:
            # An only replica has nobody to copy from: it is tried again, and never removed.
            if error.errno != errno.EIO or key in self._only_replicas:
                raise
            reason = f"{tp}: {error}: remove its directory to have it copied from another replica"
            raise CorruptData(reason) from error
        judge = self._claimed if is_doubted else self._judged
        found = judge(recovered, tp.partition)
        if not found.may_lead and found.rank > claimed.rank:
            recovered.log.abandon()
            raise CorruptData(
                f"{tp} is {found.value}, which this broker did not know when it registered: "
                "restart it"
            )
        # An I/O error has passed: without this the image would keep it until the next start.
        if claimed is Completeness.UNREADABLE and found.rank < claimed.rank:
            if recovered.log.damage.lacks_batches:
                found = found.or_worse(Completeness.UNSYNCED)
            return recovered._replace(better_claim=found)
        return recovered

    def _recover_doubted(
        self, tp: TopicPartition, topic_id: UUID, config: LogConfig, *, is_doubted: bool
    ) -> _Recovered:
        """With `is_doubted` also a damaged log: the image knows already that it may lack records.
        Raises CorruptData, OSError."""
        try:
            return self._recover(tp, topic_id, config, keeps_tail=is_doubted)
        except (CorruptData, OSError) as error:
            is_disk = isinstance(error, OSError) and error.errno != errno.EIO
            if is_disk or not is_doubted:
                raise
            return self._recover(tp, topic_id, config, is_damaged=True)

    def _recover(
        self,
        tp: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        *,
        is_damaged: bool = False,
        found: FoundDirectory | None = None,
        keeps_tail: bool = True,
    ) -> _Recovered:
        """`found`: the log's directory, if it was just read. Raises CorruptData, OSError."""
        now_ms = self._clock.now_ms()
        has_others = (topic_id, tp.partition) not in self._only_replicas
        producers = ProducerState()
        epoch_starts: list[tuple[LeaderEpoch, int]] = []

        def on_batch(header: BatchHeader, batch: Buffer) -> None:
            producers.take(header, batch, now_ms)
            note_epoch(epoch_starts, header)

        partition_log = self._manager.recover_log(
            tp,
            TopicId(topic_id),
            config,
            now_ms,
            on_snapshot=producers.restore,
            on_batch=on_batch,
            is_damaged=is_damaged,
            # Of the only replica more is readable with what a damaged batch has than without it.
            is_verified=has_others,
            keeps_tail=has_others and keeps_tail,
            found=found,
        )
        epochs = recovered_epochs(partition_log, epoch_starts, is_damaged=is_damaged)
        self._on_opened()
        return _Recovered(topic_id, partition_log, producers, epochs)

    def remove_strays(self, keep: Collection[tuple[str, int]]) -> None:
        """Remove partitions on disk that the followed image does not assign to this broker."""
        for recovered in self._prepared.values():
            recovered.log.abandon()
        self._prepared.clear()
        self._is_followed = True
        self.checkpoint_high_watermarks()
        removed = self._manager.remove_strays({TopicPartition(*each) for each in keep})
        if removed:
            log.info("partitions removed that are not hosted any more", extra={"count": removed})

    def configure(self, tp: TopicPartition, config: LogConfig) -> None:
        self._manager.configure(tp, config)

    def delete(self, tp: TopicPartition) -> None:
        hosted = self._hosted.pop(tp, None)
        if hosted is not None:
            hosted[1].damage.leave()
        self._ids.pop(tp, None)
        self._epochs_due.pop(tp, None)
        self.damaged.logs.pop(tp, None)
        try:
            self._manager.delete(tp)
        except OSError as error:  # it is no longer needed: no reason to stop the broker
            log.warning("not removed before the next start", extra={"log": tp, "reason": error})

    def store_epochs(self, tp: TopicPartition) -> None:
        partition, partition_log = self._hosted[tp]
        if partition.is_leader or not self._keep_epochs(tp):
            return  # an election costs no disk write: the batches, or a snapshot, show the epoch
        is_scheduled = bool(self._epochs_due)
        self._epochs_due[tp] = partition_log
        if not is_scheduled:  # one job for all changes: an election moves hundreds of partitions
            self._manager.schedule(self._store_due_epochs)

    def is_complete(self, tp: TopicPartition) -> None:
        with suppress(OSError):  # it is doubted again after the next start, which costs a question
            self._hosted[tp][1].state.forget_completeness()

    def _keep_epochs(self, tp: TopicPartition) -> bool:
        partition, partition_log = self._hosted[tp]
        payload = partition.epochs.to_bytes(partition_log.log_end_offset)
        return partition_log.state.keep_leader_epochs(payload)

    def _store_due_epochs(self) -> None:
        """Scheduled. An epoch that cannot be stored is kept until the next snapshot or close."""
        while self._epochs_due:
            try:
                tp, partition_log = self._epochs_due.popitem()
            except KeyError:
                return
            try:
                partition_log.state.store_kept_epochs()
            except OSError as error:
                log.warning("leader epochs not stored", extra={"partition": tp, "reason": error})

    def checkpoint_high_watermarks(self) -> None:
        """Periodic: store the high watermarks for the next start after a crash."""
        if not self._is_followed:
            return  # the checkpoint of the previous process is all that is known
        self._stored = _Stored(self._manager.directories_made, self._clock.monotonic_ms())
        job = self._high_watermarks.due(self._current_high_watermarks())
        if job is not None:
            self._manager.schedule(partial(_try_to_store, job))

    def _current_high_watermarks(self) -> dict[tuple[UUID, int], int]:
        """Those that surely have a directory: an empty log has none before its first write."""
        return self._kept | {
            (self._ids[tp], tp.partition): partition.high_watermark
            for tp, (partition, partition_log) in self._hosted.items()
            if partition_log.log_end_offset > 0
        }

    def expire_producers(self) -> Iterator[object]:
        """Periodic, in steps: forget producers that were silent for a day (KIP-854), and the
        aborted transactions in data that retention has deleted."""
        now_ms = self._clock.now_ms()
        for each in steps(self._hosted):
            if each is not None:
                partition, its_log = each[1]
                partition.producers.expire(now_ms)
                partition.producers.transactions.forget_before(its_log.log_start_offset)
            yield each

    def flush_due(self) -> None:
        self._manager.flush_due(self._clock.now_ms())
        is_behind = self._stored.made < self._manager.directories_made
        if is_behind and self._clock.monotonic_ms() >= self._stored.at_ms + NEW_STORED_MS:
            self.checkpoint_high_watermarks()

    def apply_retention(self, archived_end: ArchivedEnd = lambda tp: 0) -> Iterator[object]:
        """Periodic, in steps. `archived_end`: how far it may go in an archived topic."""
        removed, may_go = 0, partial(self._deletable_end, archived_end)
        for count in self._manager.apply_retention(self._clock.now_ms(), may_go):
            removed += count
            yield None
        if removed:
            log.info("segments expired", extra={"segments": removed})

    def compacted(self) -> Iterator[Candidate | None]:
        """The logs of compacted topics, None where other work may run."""
        for each in steps(self._hosted):
            if each is None:
                yield None
            elif each[1][1].config.compacts:
                tp, (partition, partition_log) = each
                yield Candidate(tp, partition, partition_log)

    def close(self, broker_epoch: int) -> None:
        """Sync and close every log with its producers' state. Raises OSError."""
        if self._is_followed:
            job = self._high_watermarks.due(self._current_high_watermarks())
            if job is not None:
                job()
        self._manager.close(self._snapshot, broker_epoch)
        self._hosted.clear()

    def _deletable_end(self, archived_end: ArchivedEnd, tp: TopicPartition) -> int:
        """The end of what retention may delete: of an archived topic, what its archive has."""
        partition, its_log = self._hosted[tp]
        end = partition.high_watermark
        return min(end, archived_end(tp)) if its_log.config.archived else end

    def _snapshot(self, tp: TopicPartition) -> bytes:
        """The producers' state, with the current epochs kept: a replay starts after both."""
        self._keep_epochs(tp)
        return self._hosted[tp][0].producers.snapshot()


def _try_to_store(job: Callable[[], None]) -> None:
    """A full disk does no harm here: the next attempt follows soon."""
    try:
        job()
    except OSError as error:
        log.warning("high watermarks not stored", extra={"reason": error})
