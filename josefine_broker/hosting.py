"""The partitions of this broker: a log and its deciding part, opened together and stopped together.

Rules: recovery replays a log's batch headers into its producers' state, so a retry is recognized
after a crash too; the leader epochs come from their checkpoint and from the batches themselves, the
high watermark from its checkpoint, as far as the log still goes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple
from uuid import UUID

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import TopicId, TopicPartition
from josefine_broker.base.ports import Clock
from josefine_broker.core.leader_epochs import LeaderEpochs
from josefine_broker.core.log_config import LogConfig
from josefine_broker.core.partition import Partition
from josefine_broker.core.producers import ProducerState
from josefine_broker.core.topic_config import TopicSettings
from josefine_broker.handlers.context import HostedPartition
from josefine_broker.records.batch import BatchHeader
from josefine_broker.shell.high_watermarks import HighWatermarks
from josefine_broker.shell.log import PartitionLog
from josefine_broker.shell.log_manager import LogManager

log = logging.getLogger(__name__)


class _Recovered(NamedTuple):
    """A log that was recovered, with what that told of its partition."""

    topic_id: UUID
    log: PartitionLog
    producers: ProducerState
    epochs: LeaderEpochs


class Hosting:
    """Implements `handlers.context.LogsPort` over the log manager."""

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

    def prepare(self, wanted: Iterable[tuple[TopicPartition, UUID, TopicSettings]]) -> None:
        """Recover the logs that are going to be opened, on a thread of the caller's: after a crash
        it may read gigabytes. What cannot be is told by `open`.
        """
        for tp, topic_id, settings in wanted:
            try:
                self._prepared[tp] = self._recover(tp, topic_id, settings.log)
            except (CorruptData, OSError):
                continue

    @property
    def prepared(self) -> int:
        """Logs recovered and not opened yet."""
        return len(self._prepared)

    def open(self, tp: TopicPartition, topic_id: UUID, settings: TopicSettings) -> HostedPartition:
        recovered = self._prepared.pop(tp, None)
        if recovered is not None and recovered.topic_id != topic_id:
            recovered.log.abandon()
            recovered = None
        if recovered is None:
            recovered = self._recover(tp, topic_id, settings.log)
        _, partition_log, producers, epochs = recovered
        partition_log.config = settings.log
        partition_log.snapshot_source = lambda: self._snapshot(tp)
        self._manager.adopt(tp, partition_log)
        known = self._high_watermarks.get(topic_id, tp.partition)
        start, end = partition_log.log_start_offset, partition_log.log_end_offset
        partition = Partition(producers, epochs, min(max(known, start), end))
        self._hosted[tp] = (partition, partition_log)
        self._ids[tp] = topic_id
        return HostedPartition(topic_id, partition, partition_log, settings)

    def _recover(self, tp: TopicPartition, topic_id: UUID, config: LogConfig) -> _Recovered:
        """Raises CorruptData, OSError."""
        now_ms = self._clock.now_ms()
        producers = ProducerState()
        epoch_starts: list[tuple[int, int]] = []

        def on_batch(header: BatchHeader) -> None:
            producers.record(header, header.base_offset, now_ms)
            if not epoch_starts or header.leader_epoch > epoch_starts[-1][0]:
                epoch_starts.append((header.leader_epoch, header.base_offset))

        partition_log = self._manager.recover_log(
            tp,
            TopicId(topic_id),
            config,
            now_ms,
            on_snapshot=producers.restore,
            on_batch=on_batch,
        )
        epochs = _recovered_epochs(partition_log, epoch_starts)
        self._on_opened()
        return _Recovered(topic_id, partition_log, producers, epochs)

    def remove_strays(self, keep: Collection[tuple[str, int]]) -> None:
        """Once the image is followed: what else is on disk is no partition of this broker."""
        for recovered in self._prepared.values():
            recovered.log.abandon()
        self._prepared.clear()
        removed = self._manager.remove_strays({TopicPartition(*each) for each in keep})
        if removed:
            log.info("partitions removed that are not hosted any more", extra={"count": removed})

    def configure(self, tp: TopicPartition, config: LogConfig) -> None:
        self._hosted[tp][1].config = config

    def delete(self, tp: TopicPartition) -> None:
        self._hosted.pop(tp, None)
        self._ids.pop(tp, None)
        self._epochs_due.pop(tp, None)
        try:
            self._manager.delete(tp)
        except OSError as error:  # nobody needs it any more: no reason to end the broker
            log.warning("not removed before the next start", extra={"log": tp, "reason": error})

    def store_epochs(self, tp: TopicPartition) -> None:
        partition, partition_log = self._hosted[tp]
        if partition.is_leader or not self._keep_epochs(tp):
            return  # an election costs the disk nothing: the batches, or a snapshot, will tell
        is_scheduled = bool(self._epochs_due)
        self._epochs_due[tp] = partition_log
        if not is_scheduled:  # one job for all that changed meanwhile: an election moves hundreds
            self._manager.schedule(self._store_due_epochs)

    def _keep_epochs(self, tp: TopicPartition) -> bool:
        partition, partition_log = self._hosted[tp]
        payload = partition.epochs.to_bytes(partition_log.log_end_offset)
        return partition_log.state.keep_leader_epochs(payload)

    def _store_due_epochs(self) -> None:
        """Scheduled. What cannot be stored is kept until the log's next snapshot or close."""
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
        """Periodic: where the replicas stand, for the next start after a crash."""
        job = self._high_watermarks.due(self._current_high_watermarks())
        if job is not None:
            self._manager.schedule(job)

    def _current_high_watermarks(self) -> dict[tuple[UUID, int], int]:
        return {
            (self._ids[tp], tp.partition): partition.high_watermark
            for tp, (partition, _) in self._hosted.items()
        }

    def expire_producers(self) -> None:
        """Forget producers silent for a day (KIP-854)."""
        now_ms = self._clock.now_ms()
        for partition, _ in self._hosted.values():
            partition.producers.expire(now_ms)

    def flush_due(self) -> None:
        self._manager.flush_due(self._clock.now_ms())

    def apply_retention(self) -> None:
        removed = self._manager.apply_retention(self._clock.now_ms(), self._high_watermark)
        if removed:
            log.info("segments expired", extra={"segments": removed})

    def close(self, broker_epoch: int) -> None:
        """Sync and close every log with its producers' state. Raises OSError."""
        job = self._high_watermarks.due(self._current_high_watermarks())
        if job is not None:
            job()
        self._manager.close(self._snapshot, broker_epoch)
        self._hosted.clear()

    def _high_watermark(self, tp: TopicPartition) -> int:
        return self._hosted[tp][0].high_watermark

    def _snapshot(self, tp: TopicPartition) -> bytes:
        """The producers' state, with the epochs so far kept: a replay begins behind both."""
        self._keep_epochs(tp)
        return self._hosted[tp][0].producers.snapshot()


def _recovered_epochs(partition_log: PartitionLog, seen: list[tuple[int, int]]) -> LeaderEpochs:
    """The checkpoint's epochs, cut to the log, then those that only the batches know."""
    if partition_log.log_end_offset == 0:
        return LeaderEpochs()
    try:
        stored = partition_log.state.leader_epochs()
        epochs = LeaderEpochs() if stored is None else LeaderEpochs.from_bytes(stored)
    except CorruptData as error:
        log.warning(
            "leader epochs rebuilt from batches",
            extra={"directory": partition_log.directory, "reason": error},
        )
        epochs = LeaderEpochs()
    epochs.truncate_end(partition_log.log_end_offset)
    if seen:  # where batches were read they are the truth: a truncation may not have been stored
        epochs.truncate_end(seen[0][1])
    for epoch, start_offset in seen:
        if epoch > epochs.latest:
            epochs.assign(epoch, start_offset)
    epochs.truncate_start(partition_log.log_start_offset)
    return epochs
