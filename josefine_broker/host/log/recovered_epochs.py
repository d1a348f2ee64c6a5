"""The leader epochs of a recovered log: those of its checkpoint, and those found in its batches."""

import logging

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.records.batch import BatchHeader

__all__ = ["note_epoch", "recovered_epochs"]

log = logging.getLogger(__name__)


def recovered_epochs(
    partition_log: PartitionLog, seen: list[tuple[LeaderEpoch, int]], *, is_damaged: bool = False
) -> LeaderEpochs:
    """The checkpoint's epochs, cut to the log, then those found only in the batches. Raises
    CorruptData."""
    if partition_log.log_end_offset == 0:
        return LeaderEpochs()
    stored = _stored_epochs(partition_log)
    epochs = stored or LeaderEpochs()
    epochs.truncate_end(partition_log.log_end_offset)
    if stored is None and not (seen and seen[0][1] <= partition_log.log_start_offset):
        # A replay after a snapshot has not seen all of them, and an epoch with too late a start
        # would make a follower believe that its log agrees with this one where it does not.
        seen = _epochs_of_batches(partition_log, is_damaged=is_damaged)
    if seen:  # batches that were read are right: a truncation may not have been stored
        epochs.truncate_end(seen[0][1])
    for epoch, start_offset in seen:
        if epoch > epochs.latest:
            epochs.assign(epoch, start_offset)
    epochs.truncate_start(partition_log.log_start_offset)
    return epochs


def _stored_epochs(partition_log: PartitionLog) -> LeaderEpochs | None:
    """None: the checkpoint is missing or unreadable."""
    try:
        stored = partition_log.state.leader_epochs()
        return None if stored is None else LeaderEpochs.from_bytes(stored)
    except CorruptData as error:
        event = {"directory": partition_log.directory, "reason": error}
        log.warning("leader epochs rebuilt from batches", extra=event)
        return None


def _epochs_of_batches(
    partition_log: PartitionLog, *, is_damaged: bool
) -> list[tuple[LeaderEpoch, int]]:
    """The epochs in all batches of the log. Raises CorruptData."""
    found: list[tuple[LeaderEpoch, int]] = []
    is_whole = partition_log.replay(None, lambda header, _: note_epoch(found, header))
    if not is_whole and not is_damaged:
        raise CorruptData(f"{partition_log.directory}: its leader epochs are lost, and batches too")
    return found


def note_epoch(starts: list[tuple[LeaderEpoch, int]], header: BatchHeader) -> None:
    """Add the epoch of a replayed batch, if it is new."""
    if not starts or header.leader_epoch > starts[-1][0]:
        starts.append((header.leader_epoch, header.base_offset))
