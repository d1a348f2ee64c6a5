"""Fetch (key 1): complete batches as buffers, long polls, sessions; for consumers and followers.

Rules: the first partition that has bytes gets at least one batch, however large (KIP-74). A fetch
with fewer than `min_bytes` waits up to `max_wait_ms`, but an error found while reading is reported
at once. Consumers see records below the high watermark, read_committed ones below the last stable
offset (KIP-98). A partition whose next batch does not fit counts as full. Sessions are those of
KIP-227, topic ids of KIP-516 (since v13), leader epochs of KIP-320 (since v9). Consumers may read
from followers, and are redirected to one in their rack (KIP-392, since v11).
`engine/replicas/fetch_follower.py` handles the reads of followers; a broker that does not lead
names the leader (KIP-951).
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from josefine_broker.api.rules.asker import Asker, asker_of
from josefine_broker.api.shared import archived_fetch as archived
from josefine_broker.api.shared.hints import leader_of, node_endpoints
from josefine_broker.api.shared.transactions import aborted_among
from josefine_broker.base.acls import Operation, ResourceType
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.hosted import Buffer, HostedPartition
from josefine_broker.engine.partition.fetch_session import (
    FINAL_EPOCH,
    Fetched,
    FetchPlan,
    Wanted,
    select_answers,
    wanted_of,
)
from josefine_broker.engine.partition.fetch_wait import MissingBytes, Readable
from josefine_broker.engine.partition.partition import DEBUG_REPLICA_ID, Partition
from josefine_broker.engine.purgatory.purgatory import Parked, PartitionKey
from josefine_broker.engine.replicas.fetch_follower import (
    check_follower,
    followed_with_news,
    has_no_news,
    out_of_range,
    read_for_follower,
    read_or_wait,
)
from josefine_broker.engine.replicas.leading import submit_isr_changes
from josefine_broker.records.batch import NO_LEADER_EPOCH, iter_batches
from josefine_broker.wire.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)

READ_COMMITTED = 1
FOLLOWERS_SERVE_SINCE = 11
IDS_SINCE = 13

FOUND_BEFORE_READING = frozenset(
    (
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.topic_authorization_failed,
    )
)
"""Errors that do not end a consumer's long poll, as in KafkaApis.handleFetchRequest: they persist,
and a consumer of one healthy and one deleted topic would otherwise poll without pause."""
_new = tuple.__new__


class Round(NamedTuple):
    """The result of reading every wanted partition."""

    results: list[Fetched]
    got_bytes: int
    is_urgent: bool
    """Must be answered at once: an error found while reading, a divergence, another replica to read
    from, records to delete. Or nothing can be read, so that no event would end the wait."""


def handle(ctx: Context, info: RequestInfo, request: FetchRequest) -> FetchResponse | Parked:
    """Answer now, or park the request until there are enough bytes or its wait is over."""
    if request.replica_id >= 0:
        check_follower(ctx, request)
    if request.session_epoch == FINAL_EPOCH and not request.session_id:
        plan = FetchPlan(wanted_of(request))
    else:
        waiting = ctx.clients.sessions.take_waiting(request.session_id)
        if waiting is not None and not waiting.done:
            ctx.parked.forget(waiting)
            waiting.expire(ctx.clock.monotonic_ms())
        plan = ctx.clients.sessions.begin(request, ctx.clock.monotonic_ms(), ctx.ports.rng)
    news = ctx.parked.followers.events
    found = _read_all(ctx, info, request, plan, is_first=True)
    missing_bytes = min(request.min_bytes, request.max_bytes) - found.got_bytes
    if missing_bytes <= 0 or found.is_urgent or request.max_wait_ms <= 0:
        return _answer(ctx, info, plan, found.results)
    if request.replica_id >= 0 and ctx.parked.followers.events != news:
        # The offsets this fetch confirmed caused an append: a marker, or a request that waited for
        # it.
        return read_again(ctx, info, request, plan)
    if request.replica_id >= 0:
        follower = _WaitingFollower(ctx, info, request, plan)
        ctx.parked.park(follower, follower=request.replica_id)
        return _parked(plan, follower)
    read = [
        _readable(ctx, request, wanted, fetched[2])
        for wanted, fetched in zip(plan.wanted, found.results, strict=True)
        if not fetched[2].error_code
    ]
    consumer = WaitingConsumer(ctx, info, request, plan, read)
    if consumer.missing.is_enough:
        return _answer(ctx, info, plan, found.results)
    ctx.parked.park(consumer, partitions=consumer.missing.keys)
    return _parked(plan, consumer)


def _parked(plan: FetchPlan, waiting: Parked) -> Parked:
    if plan.session is not None:
        plan.session.waiting = waiting
    return waiting


def refuse(request: FetchRequest, error: KafkaError) -> FetchResponse:
    """The whole-fetch error of v7 and later; an older client gets an answer without partitions."""
    return FetchResponse(error_code=error.code.value)


def _read_all(
    ctx: Context, info: RequestInfo, request: FetchRequest, plan: FetchPlan, *, is_first: bool
) -> Round:
    """Read every wanted partition. `is_first`: the request has just arrived and not waited yet."""
    if request.replica_id >= 0:
        return _read_all_for_follower(ctx, request, plan, is_first=is_first)
    isolation, version = request.isolation_level, info.header.api_version
    replica_id = request.replica_id
    rack_id = request.rack_id if is_first else ""
    room = min(request.max_bytes, ctx.settings.fetch.bytes_max)
    got, is_urgent, can_read = 0, False, False
    results = []
    asker = asker_of(ctx, info)
    for name, topic_id, part in plan.wanted:
        try:
            if topic_id is None and not name and version >= IDS_SINCE:
                raise KafkaError(ErrorCode.unknown_topic_id)  # the id of zeros
            if asker is not None:
                _check_reader(asker, ctx.topic_name(name, topic_id))
            hosted = _find(ctx, name, topic_id, part.index)
            if version < FOLLOWERS_SERVE_SINCE or replica_id not in (-1, DEBUG_REPLICA_ID):
                hosted.partition.check_serves(max(part.current_leader_epoch, NO_LEADER_EPOCH))
            elif replica_id == DEBUG_REPLICA_ID and part.current_leader_epoch < 0:
                pass  # a repair: intact batches are of use whatever the role of this replica is
            else:
                hosted.partition.check_reads(part.current_leader_epoch)
            answer, size = None, 0
            if rack_id and version >= FOLLOWERS_SERVE_SINCE:
                answer = _sent_elsewhere(ctx, hosted, part, rack_id)
            if answer is not None:
                is_urgent = True
            elif replica_id == -1 and archived.is_below(ctx, hosted, part):
                answer, size, part = archived.read(ctx, hosted, part, room, got == 0)
            if answer is None:
                answer, size = _read(hosted, part, replica_id, isolation, room, got == 0)
        except KafkaError as error:
            is_urgent |= error.code not in FOUND_BEFORE_READING
            topic = ctx.topic_name(name, topic_id) or ""
            results.append(Fetched(name, topic_id, _failed(ctx, topic, part, error)))
            continue
        can_read = True
        got += size
        room -= size
        results.append(Fetched(name, topic_id, answer))
    return Round(results, got, is_urgent or not can_read)


def _read_all_for_follower(
    ctx: Context, request: FetchRequest, plan: FetchPlan, *, is_first: bool
) -> Round:
    """Like `_read_all`; partitions without news are skipped, because a session may have thousands.
    Every error is urgent: a follower backs off from that partition, and fetches the others."""
    room = min(request.max_bytes, ctx.settings.fetch.bytes_max)
    got, is_urgent = 0, not plan.wanted
    results = []
    moved: list[tuple[str, int]] = []
    named = (
        {(topic.topic_id, part.index) for topic in request.topics for part in topic.partitions}
        if is_first
        else set()
    )
    names, partitions = ctx.image.topic_names, ctx.hosted.partitions
    looks_at, changes = followed_with_news(ctx, request, plan, is_first=is_first)
    replica_id = request.replica_id
    may_join = ctx.image.is_live(replica_id)
    for wanted in looks_at:
        name, topic_id, part = wanted
        topic = name if topic_id is None else names.get(topic_id, "")
        tp = (topic, part[0])
        try:
            hosted = partitions.get(tp) or _find(ctx, name, topic_id, part[0])
            # A key with an id costs its hash: nothing is looked up where nothing was named.
            is_named = bool(named) and (topic_id, part[0]) in named
            if not is_named and has_no_news(hosted, plan, wanted, replica_id):
                changes.pop(tp, None)
                continue
            changes[tp] = None  # until it has none: an answer may have no room for it, or wait
            answer, size, has_moved = read_for_follower(
                ctx, tp, hosted, part, replica_id, room, got == 0,
                is_first=is_first, may_join=may_join,
            )  # fmt: skip
        except KafkaError as error:
            is_urgent = True
            results.append(Fetched(name, topic_id, _failed(ctx, topic, part, error)))
            continue
        if size:  # to the end of the order, as in the session: none may starve
            del changes[tp]
            changes[tp] = None
        if has_moved:
            moved.append(tp)
        if answer.error_code or answer.diverging is not None:
            is_urgent = True
        elif not size and plan.has_new_start(wanted, answer.log_start_offset):
            is_urgent = True  # DeleteRecords waits for the follower
        got += size
        room -= size
        results.append(_new(Fetched, (name, topic_id, answer)))
    if moved:
        now_ms = ctx.clock.monotonic_ms()
        for tp in moved:
            ctx.parked.wake(tp, now_ms)
    if ctx.hosted.isr.due:
        submit_isr_changes(ctx)
    return Round(results, got, is_urgent)


def _check_reader(asker: Asker, topic: str | None) -> None:
    """Raises KafkaError. An unknown topic id is refused by other code."""
    if topic is not None and not asker.may(Operation.READ, ResourceType.TOPIC, topic):
        raise asker.denied(Operation.READ, ResourceType.TOPIC)


def _find(ctx: Context, name: str, topic_id: UUID | None, index: int) -> HostedPartition:
    topic = name if topic_id is None else ctx.image.topic_names.get(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_id)
    return ctx.hosted_partition(topic, index)


def _failed(
    ctx: Context, topic: str, part: FetchPartition, error: KafkaError
) -> FetchPartitionResponse:
    """Like Kafka, the list of aborted transactions is null only if reading was attempted."""
    leader = leader_of(ctx, topic, part.index, error.code)
    aborted = () if error.code in FOUND_BEFORE_READING else None
    return FetchPartitionResponse(
        part.index, error.code.value, aborted_transactions=aborted, leader=leader
    )


def _sent_elsewhere(
    ctx: Context, hosted: HostedPartition, part: FetchPartition, rack_id: str
) -> FetchPartitionResponse | None:
    """A closer replica to read from (KIP-392): in sync, in the consumer's rack, with the offset."""
    partition, log = hosted.partition, hosted.log
    followers, brokers = partition.followers, ctx.image.brokers
    here = brokers.get(ctx.broker_id)
    if followers is None or partition.is_alone or (here is not None and here.rack == rack_id):
        return None
    offset = part.fetch_offset
    best, best_end = -1, -1
    for broker_id in partition.isr:
        follower, broker = followers.get(broker_id), brokers.get(broker_id)
        if (
            follower is not None
            and broker is not None
            and broker.is_live
            and broker.rack == rack_id
            and follower.start_offset <= offset <= follower.end_offset
            and follower.end_offset > best_end
        ):  # the most advanced one, so that the reader lags least
            best, best_end = broker_id, follower.end_offset
    if best < 0:
        return None
    fields = part.index, 0, partition.high_watermark, partition.last_stable_offset
    return FetchPartitionResponse(*fields, log.log_start_offset, preferred_read_replica=best)


def _read(
    hosted: HostedPartition,
    part: FetchPartition,
    replica_id: int,
    isolation: int,
    room: int,
    at_least_one: bool,
) -> tuple[FetchPartitionResponse, int]:
    """One partition's answer and its bytes. Raises KafkaError."""
    partition, log = hosted.partition, hosted.log
    offset, log_start = part.fetch_offset, log.log_start_offset
    log_end = log.log_end_offset
    end = partition.readable_end(replica_id, log_end)
    if offset < log_start or offset > log_end:
        if replica_id == DEBUG_REPLICA_ID:  # a leader in doubt asks which of both it is
            return out_of_range(hosted, part, ErrorCode.offset_out_of_range), 0
        raise KafkaError(ErrorCode.offset_out_of_range)
    # A transaction that was open at a deletion would put the stable offset below the log start.
    stable = max(partition.last_stable_offset, log_start)
    if isolation == READ_COMMITTED and stable < end:
        end = stable
    records: Sequence[Buffer] = ()
    size = 0
    bytes_max = part.max_bytes if part.max_bytes < room else room
    if offset < end and (at_least_one or bytes_max > 0):
        is_consumer = replica_id != DEBUG_REPLICA_ID
        records = read_or_wait(
            hosted, offset, bytes_max, end, at_least_one=at_least_one, is_consumer=is_consumer
        )
        for buffer in records:
            size += len(buffer)
        # Another replica waits for what may come back, but not for what a power failure took.
        if not size and replica_id == DEBUG_REPLICA_ID and offset >= hosted.lost_from:
            raise KafkaError(ErrorCode.corrupt_message)
    answer = FetchPartitionResponse(
        part.index,
        0,
        partition.high_watermark,
        stable,
        log_start,
        aborted_among(partition, offset, records) if isolation == READ_COMMITTED else None,
        -1,
        records,
    )
    return answer, size


def _answer(
    ctx: Context, info: RequestInfo, plan: FetchPlan, results: Sequence[Fetched]
) -> FetchResponse:
    told = select_answers(plan, results)
    topics: dict[object, FetchTopicResponse] = {}
    leaders = set()
    for name, topic_id, answer in told:
        key = name if topic_id is None else topic_id
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = _new(FetchTopicResponse, (name, topic_id, []))
        topic.partitions.append(answer)  # type: ignore[attr-defined]
        if answer.leader is not None:
            leaders.add(answer.leader[0])
        if answer.records:
            ctx.hosted.traffic.sent(name, topic_id, sum(map(len, answer.records)))
    session_id = 0 if plan.session is None else plan.session.session_id
    endpoints = node_endpoints(ctx, leaders, info.listener) if leaders else ()
    return _new(FetchResponse, (0, 0, session_id, list(topics.values()), endpoints))


def _visible_bytes(hosted: HostedPartition, request: FetchRequest) -> int:
    """Bytes that ever became visible to this reader: for a debugging consumer, all appended
    ones."""
    partition = hosted.partition
    return partition.committed_bytes if request.replica_id == -1 else partition.appended_bytes


def _readable(
    ctx: Context, request: FetchRequest, wanted: Wanted, answer: FetchPartitionResponse
) -> Readable:
    name, topic_id, part = wanted
    topic = name if topic_id is None else ctx.image.topic_names[topic_id]
    key = (topic, part.index)
    hosted = ctx.hosted.partitions[key]
    size, next_offset = 0, part.fetch_offset
    if answer.records:
        size = sum(map(len, answer.records))
        for _, header in iter_batches(answer.records[-1]):
            next_offset = header.end_offset
    has_more = next_offset < _end(hosted, request)
    return _new(Readable, (key, size, part.max_bytes, has_more, _visible_bytes(hosted, request)))


def _end(hosted: HostedPartition, request: FetchRequest) -> int:
    partition = hosted.partition
    end = partition.readable_end(request.replica_id, hosted.log.log_end_offset)
    if request.isolation_level == READ_COMMITTED:
        return min(end, partition.last_stable_offset)
    return end


def read_again(
    ctx: Context, info: RequestInfo, request: FetchRequest, plan: FetchPlan
) -> FetchResponse:
    """The answer to a request that has waited."""
    return _answer(ctx, info, plan, _read_all(ctx, info, request, plan, is_first=False).results)


class _Waiting(Parked):
    """A parked fetch. Reads once more when its wait ends."""

    __slots__ = ("_ctx", "_info", "_plan", "_request")

    is_cut_short = True

    def __init__(
        self, ctx: Context, info: RequestInfo, request: FetchRequest, plan: FetchPlan
    ) -> None:
        super().__init__(ctx.clock.monotonic_ms() + request.max_wait_ms)
        self._ctx = ctx
        self._info = info
        self._request = request
        self._plan = plan

    def expire(self, now_ms: int) -> None:
        ctx, info, plan = self._ctx, self._info, self._plan
        if plan.session is not None and plan.session.waiting is self:
            plan.session.waiting = None
        self.complete(read_again(ctx, info, self._request, plan))


class _WaitingFollower(_Waiting):
    """Any news of a partition it copies completes it: parked under one key for all of them."""

    __slots__ = ()

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        self.expire(now_ms)
        return True


class WaitingConsumer(_Waiting):
    """Waits for bytes: counts those that become visible to this consumer."""

    __slots__ = ("_held_back", "_restored", "missing")

    def __init__(
        self,
        ctx: Context,
        info: RequestInfo,
        request: FetchRequest,
        plan: FetchPlan,
        read: list[Readable],
    ) -> None:
        """`read`: the partitions that were read, without an error."""
        super().__init__(ctx, info, request, plan)
        bytes_max = min(request.max_bytes, ctx.settings.fetch.bytes_max)
        self.missing = MissingBytes(min(request.min_bytes, bytes_max), read)
        self._restored = ctx.hosted.restored
        self._held_back: dict[PartitionKey, int] = {}
        """Partitions where open transactions hide committed records: up to which offset."""
        if request.isolation_level == READ_COMMITTED:
            for key in self.missing.keys:
                self._holds_back(key, ctx.hosted.partitions[key].partition)

    def _holds_back(self, key: PartitionKey, partition: Partition) -> bool:
        """Whether open transactions hide the new records there."""
        stable = partition.last_stable_offset
        was_stable = self._held_back.pop(key, stable)
        if stable < partition.high_watermark:
            self._held_back[key] = stable
        return stable == was_stable and key in self._held_back

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        assert partition is not None
        hosted = self._ctx.hosted.partitions.get(partition)
        if (
            hosted is not None
            and self._may_read(hosted)
            and not archived.has_news(self._ctx, self._plan, partition, hosted)
            # Bytes that damage hid were visible before, and could not be read.
            and self._restored == self._ctx.hosted.restored
        ):
            was_held_back = partition in self._held_back
            reads_committed = self._request.isolation_level == READ_COMMITTED
            if reads_committed and self._holds_back(partition, hosted.partition):
                return False
            # The bytes that became visible when a transaction ended were not counted: any amount
            # suffices.
            is_enough = self.missing.grew(partition, _visible_bytes(hosted, self._request))
            if not is_enough and not was_held_back:
                return False
        self.expire(now_ms)  # enough bytes, or the partition is gone and the fetch has an error
        return True

    def _may_read(self, hosted: HostedPartition) -> bool:
        """Whether this reader may still read here after a change of role."""
        serves_followers = self._info.header.api_version >= FOLLOWERS_SERVE_SINCE
        epochs = {
            part.current_leader_epoch
            for _, topic_id, part in self._plan.wanted
            if part.current_leader_epoch >= 0 and topic_id in (None, hosted.topic_id)
        }
        if epochs and hosted.partition.leader_epoch > max(epochs):
            return False
        return hosted.partition.is_leader or serves_followers
