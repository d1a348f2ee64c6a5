"""Fetch (key 1): whole batches as buffers, long polls, sessions.

Rules: the first partition that has bytes gets at least one batch, however large (KIP-74); a fetch
with fewer than `min_bytes` waits up to `max_wait_ms`, but an error is told at once; consumers see
below the high watermark, read_committed ones below the last stable offset (KIP-98). Sessions are
KIP-227's, topic ids KIP-516's (since v13), leader epochs KIP-320's (since v9).
"""

from collections.abc import Hashable, Sequence
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.core.fetch_session import (
    FINAL_EPOCH,
    Fetched,
    FetchPlan,
    Wanted,
    select_answers,
    wanted_of,
)
from josefine_broker.core.parked import Parked
from josefine_broker.handlers.context import Buffer, Context, HostedPartition, RequestInfo
from josefine_broker.wire.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)

READ_COMMITTED = 1


def handle(ctx: Context, info: RequestInfo, request: FetchRequest) -> FetchResponse | Parked:
    """Answer now, or park the request until there is enough or its wait is over."""
    if request.session_epoch == FINAL_EPOCH and not request.session_id:
        plan = FetchPlan(tuple(wanted_of(request)))
    else:
        plan = ctx.sessions.begin(request, ctx.clock.monotonic_ms(), ctx.rng)
    results, got_bytes, failed = _read_all(ctx, request, plan.wanted)
    missing_bytes = min(request.min_bytes, request.max_bytes) - got_bytes
    if missing_bytes <= 0 or failed or request.max_wait_ms <= 0 or not plan.wanted:
        return _answer(ctx, plan, results)
    return _park(ctx, request, plan, missing_bytes)


def refuse(request: FetchRequest, error: KafkaError) -> FetchResponse:
    """The whole-fetch error of v7 and later; an older client sees an answer without partitions."""
    return FetchResponse(error_code=error.code.value)


def _read_all(
    ctx: Context, request: FetchRequest, wanted: Sequence[Wanted]
) -> tuple[list[Fetched], int, bool]:
    """Read every wanted partition: (answers, bytes, whether one of them is an error)."""
    replica_id, isolation = request.replica_id, request.isolation_level
    room = min(request.max_bytes, ctx.settings.fetch_bytes_max)
    got, failed = 0, False
    results = []
    for name, topic_id, part in wanted:
        try:
            hosted = _find(ctx, name, topic_id, part.index)
            answer, size = _read(hosted, part, replica_id, isolation, room, got == 0)
        except KafkaError as error:
            failed = True
            results.append(
                Fetched(name, topic_id, FetchPartitionResponse(part.index, error.code.value))
            )
            continue
        got += size
        room -= size
        results.append(Fetched(name, topic_id, answer))
    return results, got, failed


def _find(ctx: Context, name: str, topic_id: UUID | None, index: int) -> HostedPartition:
    topic = name if topic_id is None else ctx.image.topic_names.get(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_id)
    return ctx.hosted(topic, index)


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
    partition.check_serves(part.current_leader_epoch)
    offset, log_start = part.fetch_offset, log.log_start_offset
    log_end = log.log_end_offset
    end = partition.readable_end(replica_id, log_end)
    if offset < log_start or offset > log_end:
        raise KafkaError(ErrorCode.offset_out_of_range)
    stable = partition.last_stable_offset
    if isolation == READ_COMMITTED and stable < end:
        end = stable
    records: Sequence[Buffer] = ()
    size = 0
    bytes_max = part.max_bytes if part.max_bytes < room else room
    if offset < end and (at_least_one or bytes_max > 0):
        records = log.read(offset, bytes_max, end_offset=end, at_least_one=at_least_one)
        for buffer in records:
            size += len(buffer)
    answer = FetchPartitionResponse(
        part.index,
        0,
        partition.high_watermark,
        stable,
        log_start,
        () if isolation == READ_COMMITTED else None,
        -1,
        records,
    )
    return answer, size


def _answer(ctx: Context, plan: FetchPlan, results: Sequence[Fetched]) -> FetchResponse:
    told = select_answers(plan, results)
    topics: dict[object, FetchTopicResponse] = {}
    for name, topic_id, answer in told:
        key = name if topic_id is None else topic_id
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = FetchTopicResponse(name, topic_id, [])
        topic.partitions.append(answer)  # type: ignore[attr-defined]
        for buffer in answer.records or ():
            ctx.counters.fetched_bytes += len(buffer)
    session_id = 0 if plan.session is None else plan.session.session_id
    return FetchResponse(0, 0, session_id, list(topics.values()))


def _park(ctx: Context, request: FetchRequest, plan: FetchPlan, missing_bytes: int) -> Parked:
    keys: dict[tuple[str, int], int] = {}
    for name, topic_id, part in plan.wanted:
        topic = ctx.topic_name(name, topic_id)
        assert topic is not None
        key = (topic, part.index)
        keys[key] = ctx.partitions[key].partition.appended_bytes
    deadline_ms = ctx.clock.monotonic_ms() + request.max_wait_ms
    waiting = _WaitingFetch(ctx, request, plan, keys, missing_bytes, deadline_ms)
    ctx.parked.park(waiting, keys)
    return waiting


class _WaitingFetch(Parked):
    """A fetch that waits for `missing_bytes` more. Counts what is appended, and reads once."""

    __slots__ = ("_ctx", "_missing_bytes", "_plan", "_request", "_seen")

    def __init__(
        self,
        ctx: Context,
        request: FetchRequest,
        plan: FetchPlan,
        seen: dict[tuple[str, int], int],
        missing_bytes: int,
        deadline_ms: int,
    ) -> None:
        super().__init__(deadline_ms)
        self._ctx = ctx
        self._request = request
        self._plan = plan
        self._seen = seen
        self._missing_bytes = missing_bytes

    def try_complete(self, key: Hashable, now_ms: int) -> bool:
        assert isinstance(key, tuple)
        hosted = self._ctx.partitions.get(key)
        if hosted is not None:
            total = hosted.partition.appended_bytes
            self._missing_bytes -= total - self._seen[key]
            self._seen[key] = total
            if self._missing_bytes > 0:
                return False
        self.expire(now_ms)  # enough, or the partition is gone and the fetch has an error to tell
        return True

    def expire(self, now_ms: int) -> None:
        results, _, _ = _read_all(self._ctx, self._request, self._plan.wanted)
        self.complete(_answer(self._ctx, self._plan, results))
