"""The append of several plain produce requests to one partition: by one write, with one step of the
high watermark and one wake-up of waiting fetches.

Rules: it appends all of the requests or none. It appends only what `api/produce.py` would append
with the same bytes and the same answers; anything that it does not know leaves the requests to that
path, which has the error codes. So nothing is refused here. A batch of an idempotent producer is
plain if it is the next one that the partition expects: duplicates, gaps, new epochs and producers
that are not known yet take the general path.
"""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import INTERNAL_TOPICS
from josefine_broker.engine.metadata.log_config import TimestampType
from josefine_broker.engine.partition.partition import ACKS_ALL
from josefine_broker.engine.partition.replica_role import ReplicaState
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.replicas.committing import AwaitTogether
from josefine_broker.engine.replicas.leading import note_grown, wake_followers
from josefine_broker.records.plain_produce import Key, PlainProduce, PlainRequest, Survey

_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much
_CREATE_TIME, _LEADER = TimestampType.CREATE_TIME, ReplicaState.LEADER


class Wait(NamedTuple):
    """Requests (acks=all) whose answers hold once their batches are committed."""

    token: Parked
    """Answered by a `Together`, or a `Hangup`."""
    ends: dict[int, int]
    """Place of each request in its group, and the end offset of its batch."""


class Stored(NamedTuple):
    """Requests of one partition that were appended together."""

    answers: list[bytes]
    """In the order of the requests."""
    waits: tuple[Wait, ...] = ()
    """The answers that must not be sent yet."""


def is_open(ctx: Context) -> bool:
    """Whether requests may be served without their client's name: no access control, no quota."""
    return ctx.clients.authorizer is None and not ctx.image.quotas


def append_groups(
    ctx: Context, plain: PlainProduce, groups: Mapping[Key, list[PlainRequest]]
) -> dict[Key, Stored | None]:
    """What became of the requests of each partition. Followers are woken once, after all appends:
    the answer to a fetch that waits then has the batches of every partition."""
    if len(groups) == 1:
        return {key: append_plain(ctx, plain, key, each) for key, each in groups.items()}
    replicas: dict[int, None] = {}
    try:
        return {
            key: append_plain(ctx, plain, key, requests, replicas)
            for key, requests in groups.items()
        }
    finally:
        if replicas:
            wake_followers(ctx, replicas, ctx.clock.monotonic_ms())


def append_alone(ctx: Context, plain: PlainProduce, request: PlainRequest) -> Stored | None:
    """What `append_groups` does, for one request."""
    return append_plain(ctx, plain, request[0], [request])


def append_plain(
    ctx: Context,
    plain: PlainProduce,
    key: Key,
    requests: list[PlainRequest],
    to_wake: dict[int, None] | None = None,
) -> Stored | None:
    """The answers; None: nothing was appended. Adds to `to_wake` the replicas that are to be woken,
    or wakes them itself."""
    ready = check_plain(ctx, plain, key, requests, ctx.clock.now_ms())
    if ready is None:
        return None
    tp, hosted, found, _ = ready
    base_offset = append_checked(ctx, ready, requests, to_wake)
    if base_offset is None:
        return None
    answers = plain.answers(requests, base_offset, hosted.log.log_start_offset)
    if not found[5] or hosted.partition.high_watermark >= base_offset + found[0]:
        return _new(Stored, (answers, ()))
    return _new(Stored, (answers, waits_of(ctx, tp, hosted, requests, base_offset)))


Ready = tuple[tuple[str, int], HostedPartition, Survey, int]
"""The partition, what its requests have in all, and the time: no `NamedTuple`, for its cost."""


def check_plain(
    ctx: Context, plain: PlainProduce, key: Key, requests: list[PlainRequest], now_ms: int
) -> Ready | None:
    """Whether the requests may be appended together to the partition; changes nothing."""
    topic_key, index, by_id = key
    # By id since Produce 13 (KIP-516).
    topic = ctx.image.topic_names.get(UUID(bytes=topic_key)) if by_id else topic_key.decode()
    if topic is None or topic in INTERNAL_TOPICS or ctx.storage.is_full:
        return None
    tp = (topic, index)
    hosted = ctx.hosted.partitions.get(tp)
    validated = ctx.clients.validations.partitions
    # A batch must not overtake an earlier one of its partition that is still being validated.
    if hosted is None or (validated and tp in validated):
        return None
    found = plain.survey(requests)
    if not _takes(hosted, requests, found, now_ms) or (
        found[6] and not _continues(hosted, requests)
    ):
        return None
    return tp, hosted, found, now_ms


def append_checked(
    ctx: Context, ready: Ready, requests: list[PlainRequest], to_wake: dict[int, None] | None
) -> int | None:
    """The offset of the first batch; None: nothing was appended, since a roll or a sync is due, or
    the write failed. `to_wake`: see `append_plain`."""
    tp, hosted, found, now_ms = ready
    partition, news = hosted.partition, ctx.parked.followers
    appended = hosted.log.append_plain(requests, found[1], partition.leader_epoch, now_ms)
    if appended is None:
        return None
    base_offset = appended[0]
    if partition.is_alone:
        _note_stored(ready, requests, base_offset)
        if ctx.parked.awaits(tp):
            ctx.parked.wake(tp, ctx.clock.monotonic_ms())
        # The only replica has committed what it has stored, unless a sync is required (`_takes`).
        assert not found[5] or partition.high_watermark >= base_offset + found[0], "not committed"
        return base_offset
    news.note(tp)
    news.grown[tp] = appended
    monotonic_ms = ctx.clock.monotonic_ms()
    try:
        if to_wake is None:
            # First: while they copy the batches, the rest is done here.
            wake_followers(ctx, partition.replicas, monotonic_ms)
        else:
            to_wake.update(dict.fromkeys(partition.replicas))
    finally:
        _note_stored(ready, requests, base_offset)
        note_grown(ctx, tp, hosted, base_offset, monotonic_ms)
    return base_offset


def _note_stored(ready: Ready, requests: list[PlainRequest], base_offset: int) -> None:
    """What the partition and its counters must know of batches that are in the log."""
    _, hosted, (records, size_bytes, *_, has_producers), now_ms = ready
    partition = hosted.partition
    if has_producers:
        sent = (((each[12], each[13], each[14], each[7]), each[9]) for each in requests)
        partition.producers.record_next(sent, base_offset, now_ms)
    batches = len(requests)
    sizes = ((each[7], each[6]) for each in requests) if batches > 1 else ()
    durable_end = hosted.log.durable_end_offset if partition.is_alone else base_offset
    partition.appended_together(records, size_bytes, sizes, base_offset, durable_end)
    traffic = hosted.traffic
    traffic.batches_in += batches
    traffic.records_in += records
    traffic.bytes_in += size_bytes


def waits_of(
    ctx: Context,
    tp: tuple[str, int],
    hosted: HostedPartition,
    requests: list[PlainRequest],
    base_offset: int,
) -> tuple[Wait, ...]:
    """The waits of requests that were appended back to back."""
    if len(requests) == 1:
        end_offset = base_offset + requests[0][7]
        deadline_ms = ctx.clock.monotonic_ms() + requests[0][11]
        token = AwaitTogether(ctx, tp, hosted, end_offset, deadline_ms)
        ctx.parked.park(token, partitions=(tp,))
        return (_new(Wait, (token, {0: end_offset})),)
    ends: dict[int, tuple[PlainRequest, int]] = {}
    end_offset = base_offset
    for place, request in enumerate(requests):
        end_offset += request[7]
        ends[place] = request, end_offset
    return waits_until(ctx, tp, hosted, ends)


def waits_until(
    ctx: Context,
    tp: tuple[str, int],
    hosted: HostedPartition,
    ends: Mapping[int, tuple[PlainRequest, int]],
) -> tuple[Wait, ...]:
    """One wait for all requests with the same timeout: clients of one kind have the same. `ends`:
    by their places, in order, the requests and the end offsets of their batches."""
    ends_by_timeout: dict[int, dict[int, int]] = {}
    for place, (request, end_offset) in ends.items():
        if request[4] == ACKS_ALL:
            ends_by_timeout.setdefault(request[11], {})[place] = end_offset
    now_ms = ctx.clock.monotonic_ms()
    waits = []
    for timeout_ms, due in ends_by_timeout.items():
        last = next(reversed(due.values()))
        token = AwaitTogether(ctx, tp, hosted, last, now_ms + timeout_ms)
        token.park(ctx.parked)
        waits.append(Wait(token, due))
    return tuple(waits)


def _takes(
    hosted: HostedPartition, requests: list[PlainRequest], found: Survey, now_ms: int
) -> bool:
    """Whether the partition stores batches as they come, and can acknowledge them, and every batch
    is within the topic's limits of size and time (KIP-937)."""
    partition, settings = hosted.partition, hosted.settings
    config = settings.log
    _, size_bytes, low_ms, high_ms, has_keyless, acks_all, _ = found
    if partition.state is not _LEADER or settings.mirror_session:
        return False
    bytes_max = config.message_bytes_max
    if size_bytes > bytes_max and max(request[6] for request in requests) > bytes_max:
        return False
    # acks=all is answered after a sync, or refused, only by the general path.
    if acks_all and (
        partition.is_stranded or partition.is_under_min_isr or config.flush_messages is not None
    ):
        return False
    return (
        config.compression is None
        and config.validates_records
        and config.timestamp_type is _CREATE_TIME
        and not (has_keyless and "compact" in config.cleanup_policy)
        and high_ms - now_ms <= settings.timestamp_after_max_ms
        and now_ms - low_ms <= settings.timestamp_before_max_ms
    )


def _continues(hosted: HostedPartition, requests: list[PlainRequest]) -> bool:
    """Whether each batch of an idempotent producer is the next one that is expected from it."""
    partition = hosted.partition
    # A later batch must not overtake a refused one.
    if partition.refusals:
        return False
    return partition.producers.continues(
        (each[12], each[13], each[14], each[7]) for each in requests
    )
