"""A follower's fetch from one partition: reads up to the log end offset, and reports its progress.

Rules: the sender must be a replica of the partition, with the broker epoch that the image has
(KIP-903). A log that diverges from ours gets the epoch and end offset to truncate to (KIP-595: in
the Fetch answer, without a separate request). OFFSET_OUT_OF_RANGE carries our log start offset,
where the follower restarts its log. It is checked after divergence: a log that is longer than ours
is truncated to where both agree, and need not restart. Only a request that has just arrived
(`is_first`) counts as progress: one that has waited contains nothing new about its sender. A
follower that has caught up and is live (`may_join`) is added to the ISR by the next proposal. An
answer has room for a first batch of any size (`at_least_one`), so that no follower gets stuck
(KIP-74). Followers do not use the last stable offset: the high watermark is in its place.
"""

from collections.abc import Sequence

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import Buffer, HostedPartition
from josefine_broker.engine.partition.fetch_session import FetchPlan, PartitionKey, Wanted
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.replication import UNKNOWN_OFFSET
from josefine_broker.wire.fetch import FetchPartition, FetchPartitionResponse, FetchRequest

LOOK_MS = 500
"""How often all partitions of a session are looked at."""
_new = tuple.__new__


def check_follower(ctx: Context, request: FetchRequest) -> None:
    """Raises KafkaError(stale_broker_epoch) when the sender's broker epoch differs from the
    image's: an older incarnation, or one that this broker has not seen registered yet."""
    broker = ctx.image.brokers.get(request.replica_id)
    known = -1 if broker is None else broker.epoch
    if request.replica_epoch != known:
        raise KafkaError(
            ErrorCode.stale_broker_epoch,
            f"broker {request.replica_id} has epoch {request.replica_epoch}, expected {known}",
        )


def followed_with_news(
    ctx: Context, request: FetchRequest, plan: FetchPlan, *, is_first: bool
) -> tuple[Sequence[Wanted], dict[tuple[str, int], None]]:
    """The partitions of a follower's request to look at, and where to note those that may have news
    at its next look. All of them from time to time: that finds what no event has noted."""
    session, now_ms = plan.session, ctx.clock.monotonic_ms()
    if session is None or not plan.incremental or not session.by_id or len(plan.wanted) < 2:
        return plan.wanted, {}
    if request.replica_id not in ctx.image.brokers:
        # A tool that names itself a replica: each event would be noted for it, for ever.
        return plan.wanted, {}
    changes = ctx.parked.followers.of(request.replica_id)
    is_due = now_ms - session.looked_ms >= LOOK_MS
    found: dict[PartitionKey, Wanted] = {}
    for tp in list(changes):
        hosted = ctx.hosted.partitions.get(tp)
        key = None if hosted is None else (hosted.topic_id, tp[1])
        cached = None if key is None else session.partitions.get(key)
        if key is None or cached is None:
            del changes[tp]
            is_due |= key is None  # its id is not known any more: a look at all finds its error
        else:
            found[key] = cached.wanted
    if is_due:
        session.looked_ms = now_ms
        return plan.wanted, changes
    for _, topic_id, parts in request.topics if is_first else ():
        for part in parts:
            assert topic_id is not None, "a session by id"
            key = (topic_id, part[0])
            if key in session.partitions:  # it may be forgotten by the same request
                found[key] = session.partitions[key].wanted
    return tuple(found.values()), changes


def has_no_news(hosted: HostedPartition, plan: FetchPlan, wanted: Wanted, replica_id: int) -> bool:
    """A follower that is in sync, has everything, and was informed of that, at this very epoch."""
    partition, log, part = hosted.partition, hosted.log, wanted.partition
    return (
        part.fetch_offset == log.log_end_offset
        and part.current_leader_epoch == partition.leader_epoch
        and partition.is_leader
        and replica_id in partition.isr
        and plan.is_told(wanted, partition.high_watermark, log.log_start_offset)
    )


def read_for_follower(
    ctx: Context,
    tp: tuple[str, int],
    hosted: HostedPartition,
    part: FetchPartition,
    replica_id: int,
    room: int,
    at_least_one: bool,
    *,
    is_first: bool,
    may_join: bool,
) -> tuple[FetchPartitionResponse, int, bool]:
    """(answer, its bytes, whether high watermark or low watermark may have moved). Raises
    KafkaError."""
    partition, log = hosted.partition, hosted.log
    partition.check_serves(part.current_leader_epoch)
    offset, start, end = part.fetch_offset, log.log_start_offset, log.log_end_offset
    limit = partition.readable_end(replica_id, end)
    # Divergence is checked before progress: a follower whose log diverges below its fetch offset
    # does not have our records up to there, and must not move the high watermark (KIP-279).
    if part.last_fetched_epoch >= 0 and offset >= start:
        try:
            epoch, has_holes = part.last_fetched_epoch, hosted.settings.log.may_have_holes
            diverging = partition.diverging(offset, epoch, end, has_holes=has_holes)
        except KafkaError as error:
            return out_of_range(hosted, part, error.code), 0, False
        if diverging is not None:
            high_watermark = partition.high_watermark
            return (
                FetchPartitionResponse(
                    part.index, 0, high_watermark, high_watermark, start, diverging=diverging
                ),
                0,
                False,
            )
    if not start <= offset <= end:
        return out_of_range(hosted, part, ErrorCode.offset_out_of_range), 0, False
    has_moved = False
    if is_first:
        now_ms = ctx.clock.monotonic_ms()
        # KIP-107: DeleteRecords is answered when every live replica has deleted, too.
        has_deleted = _start_of(partition, replica_id) != part.log_start_offset
        has_moved = partition.follower_fetched(
            replica_id,
            offset,
            part.log_start_offset,
            end,
            now_ms,
            may_join=may_join,
            broker_epoch=ctx.image.brokers[replica_id].epoch,
            durable_end_offset=log.durable_end_offset,
        )
        has_moved |= has_deleted
        followers = partition.followers
        if followers is not None and followers.joining and not followers.is_changing:
            ctx.hosted.isr.due[tp] = None
    records: Sequence[Buffer] = ()
    size = 0
    bytes_max = min(part.max_bytes, room)
    if offset < limit and (at_least_one or bytes_max > 0):
        records = read_or_wait(
            hosted, offset, bytes_max, limit, at_least_one=at_least_one, is_consumer=False
        )
        size = sum(map(len, records))
    high_watermark = partition.high_watermark
    fields = part.index, 0, high_watermark, high_watermark, start, None, -1, records, None, None
    return _new(FetchPartitionResponse, fields), size, has_moved


def read_or_wait(
    hosted: HostedPartition,
    offset: int,
    bytes_max: int,
    end: int,
    *,
    at_least_one: bool,
    is_consumer: bool = True,
) -> Sequence[Buffer]:
    """Batches from `offset`. While a damaged one is repaired, a consumer gets that of another
    replica as soon as it is here, and until then none: an error would end many consumers, so their
    fetch waits as for new records. Raises KafkaError."""
    try:
        return hosted.log.read(offset, bytes_max, end_offset=end, at_least_one=at_least_one)
    except KafkaError as error:
        if error.code is ErrorCode.corrupt_message and hosted.may_be_repaired(offset):
            if not is_consumer:
                return ()
            return hosted.substitute(offset, bytes_max, end, at_least_one=at_least_one)
        raise


def _start_of(partition: Partition, replica_id: int) -> int:
    """That follower's log start offset, as its last fetch reported it."""
    follower = None if partition.followers is None else partition.followers.get(replica_id)
    return UNKNOWN_OFFSET if follower is None else follower.start_offset


def out_of_range(
    hosted: HostedPartition, part: FetchPartition, code: ErrorCode
) -> FetchPartitionResponse:
    """An error with this log's start: without it the follower has no place to restart at."""
    partition = hosted.partition
    return FetchPartitionResponse(
        part.index, code.value, partition.high_watermark, -1, hosted.log.log_start_offset
    )
