"""A log whose last damage is repaired: what could not be read when it was opened counts now."""

from __future__ import annotations

from josefine_broker.base.ids import LeaderEpoch, TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.partition.repair.ports import DamagedLog
from josefine_broker.records.batch import NO_LEADER_EPOCH, BatchHeader
from josefine_broker.records.crc import Buffer


def replay_repaired(
    ctx: Context, tp: TopicPartition, hosted: HostedPartition, its_log: DamagedLog
) -> bool:
    """Take producers and leader epochs from all batches of this log. False: the replay has found
    new damage, and nothing of it counts."""
    partition, now_ms = hosted.partition, ctx.clock.now_ms()
    starts: dict[LeaderEpoch, int] = {}

    def on_batch(header: BatchHeader, batch: Buffer) -> None:
        if header.leader_epoch != NO_LEADER_EPOCH:  # of a batch without records
            starts.setdefault(header.leader_epoch, header.base_offset)
        producers.take(header, batch, now_ms)

    # Without the batches that could not be read, sequence numbers and open transactions were
    # missing: a retry could have been stored twice.
    producers = partition.producers
    producers.clear()
    if not hosted.log.replay(None, on_batch):
        return False
    partition.epochs.clear()
    for epoch, start_offset in starts.items():
        partition.epochs.assign(epoch, start_offset)
    partition.epochs.truncate_start(hosted.log.log_start_offset)
    partition.repaired()
    its_log.has_batches_again()
    ctx.ports.logs.store_epochs(tp)
    return True
