"""Where a repair ends a log before its hole, because nobody has to send what is missing.

Rules: a follower's log is cut where its leader has another batch, or none; a leader's, where a
crash explains the hole. Neither is cut where what is missing may be committed.
"""

from __future__ import annotations

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.ports import Gravity
from josefine_broker.engine.replicas.following import HaltError, check_cut
from josefine_broker.engine.replicas.repair.work import RepairWork


def may_cut_for_leader(ctx: Context, work: RepairWork, sender: int, offset: int) -> bool:
    """Whether our log is cut where `sender` has a batch that does not fit into the hole: only if it
    is the leader. What follows the hole here differs, too."""
    partition = work.hosted.partition
    if not partition.awaits_repair or sender != partition.leader:
        return False
    try:
        check_cut(ctx, work.tp, work.hosted, offset)
    except HaltError:
        return False
    return True


def may_end_as(ctx: Context, work: RepairWork, leader: int, offset: int) -> bool:
    """Whether our log may be cut at `offset` if that of this replica, which leads and serves, ends
    there."""
    if not work.hosted.is_served_by(leader):
        return False
    # Images below that feature level record no unclean elections: there a power failure explains
    # that a leader lacks what was committed.
    is_explained = work.log.lost_power and not ctx.image.keeps_doubts
    return is_explained or work.hosted.partition.may_be_cut_to(offset)


def is_unacknowledged(work: RepairWork, offset: int, own_id: int) -> bool:
    """Whether a crash explains the hole at `offset`, which no replica can fill: it was not synced
    here, and is not known to be committed, unless a power failure took it. Only the leader decides
    so."""
    partition, log = work.hosted.partition, work.log
    is_explained = log.lost_power or offset >= partition.high_watermark
    is_leader = partition.awaits_repair and partition.leader == own_id
    return is_leader and is_explained and offset >= log.unsynced_from


def cut(ctx: Context, work: RepairWork, offset: int, message: str) -> bool:
    """End the log before the hole, as a start does where nothing intact follows. Returns whether
    the disk allowed it."""
    hosted = work.hosted
    work.tell(ctx, message, Gravity.WARNING, at=offset, end=hosted.log.log_end_offset)
    try:
        hosted.log.truncate_to(offset)
    except KafkaError as error:
        work.tell(ctx, "a log was not cut", Gravity.ERROR, reason=error)
        return False
    hosted.partition.truncated(hosted.log.log_end_offset)
    return True
