"""Damaged records that the other replicas have deleted: a leader's log starts after them, too.

Rules: a log starts later only where its records were deleted, by request or by the retention. A
leader that was elected before it followed such a deletion has records that no other replica has any
more. If they are damaged, nobody can ever send them, and nobody has to. So the leader takes the
earliest start of the replicas that are in sync, if all of these start after the damage, up to its
high watermark. Its followers learn the start from it.
"""

from __future__ import annotations

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.partition.repair.repair import Repair
from josefine_broker.engine.ports import Gravity
from josefine_broker.engine.replicas.replica_reads import start_after
from josefine_broker.wire.fetch import FetchResponse


def note_refusal(repair: Repair, replica: int, answer: FetchResponse | None, wanted: int) -> None:
    """It does not have the batch; if its log starts after that, the records were deleted there."""
    repair.refused(replica, start_after(answer, wanted))


def follows_deletion(ctx: Context, tp: TopicPartition, repair: Repair, wanted: int) -> bool:
    """Whether this leader's log starts after `wanted` now, as those of the others do."""
    hosted = ctx.hosted.partitions.get(tp)
    if hosted is None or hosted.partition.leader != ctx.broker_id:
        return False
    partition, its_log = hosted.partition, hosted.log
    start = repair.deleted_before([each for each in partition.isr if each != ctx.broker_id])
    if not wanted < start <= its_log.log_end_offset:
        return False
    place = {"partition": str(tp), "from": its_log.log_start_offset, "to": start}
    try:
        its_log.delete_before(start)
    except KafkaError as error:
        ctx.ports.tell("deletion not followed", gravity=Gravity.ERROR, reason=str(error), **place)
        return False
    partition.started_at(start)
    partition.follow_high_watermark(start, start)
    what = "damaged records were deleted on the other replicas: the log starts after them"
    ctx.ports.tell(what, gravity=Gravity.WARNING, **place)
    ctx.parked.followers.note(tp)
    ctx.parked.wake(tp, ctx.clock.monotonic_ms())
    return True
