"""Produce (key 0): appends KIP-98 batches to partitions, with acks 0, 1 and all.

The hot path: control per request, data per batch, and per record only compiled code. A batch is
validated before it is appended (`engine/validation`), on another thread where that takes long.
Since v13 topics are named by id (KIP-516); zstd needs v7 (KIP-110). Each partition has its own
error. acks=all is answered when every in-sync replica has the batches. A broker that does not lead
names the leader (KIP-951, since v10). The first batch of a transaction waits until its coordinator
has verified it (KIP-890). acks=0 has no answer: an error closes the connection, which makes the
client look for the leader.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from josefine_broker.api.shared.hints import leader_of, node_endpoints
from josefine_broker.api.shared.transactions import abortable, adds_partitions, check_transactions
from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.transaction_verification import (
    go_on_when_verified,
    must_verify_batch,
    pass_on,
)
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import INTERNAL_TOPICS
from josefine_broker.engine.partition.partition import ACKS_ALL
from josefine_broker.engine.partition.questions import Claim
from josefine_broker.engine.purgatory.promises import Promise
from josefine_broker.engine.purgatory.purgatory import Hangup
from josefine_broker.engine.replicas.batches import NO_APPEND_TIME, append_batch
from josefine_broker.engine.replicas.committing import Appended, answer_when_committed
from josefine_broker.engine.replicas.mirrored import append_mirrored, check_session, is_of_mirror
from josefine_broker.engine.validation.produced_batch import (
    RecordsRefusedError,
    Validated,
    validate_batch,
)
from josefine_broker.engine.validation.queue import Verdict
from josefine_broker.engine.validation.stored_codec import validate_for_storage
from josefine_broker.records.batch import HEADER_BYTES, parse_header
from josefine_broker.records.plain_produce import PlainRequest
from josefine_broker.wire.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
    RecordError,
)

ACKS = (-1, 0, 1)
ZSTD = 4
ZSTD_SINCE_VERSION = 7
RECORD_BATCH = 2
VALIDATION_SLACK_MS = 30_000
"""Beyond a request's own timeout: a validation always ends; only its answer may come too late."""
MAGIC_AT = 16
ATTRIBUTES_AT = 22
"""Low byte of the attributes in a batch: its low three bits are the compression codec."""

AS_PRODUCED = {
    ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch,
    ErrorCode.concurrent_transactions: ErrorCode.not_enough_replicas,
    ErrorCode.coordinator_not_available: ErrorCode.not_enough_replicas,
    ErrorCode.coordinator_load_in_progress: ErrorCode.not_enough_replicas,
    ErrorCode.not_coordinator: ErrorCode.not_enough_replicas,
    ErrorCode.unknown_topic_or_partition: ErrorCode.not_enough_replicas,
}
"""The coordinator's errors about a transaction, as producers get them (like Kafka): after the last
of them every client retries."""

_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much
_NO_ERROR = ProducePartitionResponse(0)[5:]
_UNDECIDED = ProducePartitionResponse(0, ErrorCode.request_timed_out.value)


class _Round(NamedTuple):
    """One request, with the undecided answers of its partitions."""

    ctx: Context
    info: RequestInfo
    request: ProduceRequest
    now_ms: int
    waiting: list[Appended]
    """Appended with acks=all, not yet on every in-sync replica."""
    held: list["_Held"]
    """Batches whose transaction's coordinator is asked first."""
    late: list["_Late"]
    """Batches whose validation takes long, or that wait for such a batch."""


def handle(ctx: Context, info: RequestInfo, request: ProduceRequest) -> object:
    """Append one batch per named partition; errors are per partition."""
    acks = request.acks
    if acks not in ACKS:
        raise KafkaError(ErrorCode.invalid_required_acks, f"acks is {acks}")
    if request.transactional_id is not None:
        check_transactions(ctx)
    each = _new(_Round, (ctx, info, request, ctx.clock.now_ms(), [], [], []))
    append = _append if info.header.api_version >= ZSTD_SINCE_VERSION else _append_of_old_client
    topics: list[ProduceTopicResponse] = []
    for name, topic_id, partitions in request.topics:
        topic = name if topic_id is None else ctx.topic_name(name, topic_id)
        results: list[ProducePartitionResponse] = []
        for part in partitions:
            if topic is None:
                _note_early(ctx, topic_id, part)
                answer = _refuse(ctx, part.index, ErrorCode.unknown_topic_id)
            else:
                answer = append(each, topic, part, results, len(results))
            results.append(answer)
        topics.append(_new(ProduceTopicResponse, (name, topic_id, results)))
    finish = partial(_finish, each, topics)
    if not each.held and not each.late:
        return finish()
    go_on = partial(_when_validated, each, finish)
    return go_on() if not each.held else _when_verified(each, each.held, go_on)


def refuse(request: ProduceRequest, error: KafkaError) -> ProduceResponse | None:
    """The answer when the whole request is refused."""
    if request.acks == 0:
        return None
    code, message = error.code.value, error.message or None
    return ProduceResponse(
        [
            ProduceTopicResponse(
                name,
                topic_id,
                [
                    ProducePartitionResponse(p.index, code, error_message=message)
                    for p in partitions
                ],
            )
            for name, topic_id, partitions in request.topics
        ]
    )


def refuse_late(
    ctx: Context, request: PlainRequest, error: KafkaError, listener: str
) -> ProduceResponse:
    """The answer to a plain request whose batch was appended, but not acknowledged."""
    (topic_key, index, by_id), *_ = request
    topic_id = UUID(bytes=topic_key) if by_id else None
    name = "" if by_id else topic_key.decode()
    topic = ctx.topic_name(name, topic_id) or ""
    answer = _refuse(ctx, index, error.code, error.message, topic)
    return _answer(ctx, listener, [_new(ProduceTopicResponse, (name, topic_id, [answer]))])


def refuse_parts(
    ctx: Context,
    request: ProduceRequest,
    outcomes: Sequence[int | KafkaError],
    log_starts: Sequence[int],
    listener: str,
) -> ProduceResponse:
    """The answer to a plain request with several batches, some of which were not appended or not
    acknowledged. The others are at the offsets that `outcomes` has in their places."""
    left = zip(outcomes, log_starts, strict=True)
    topics = []
    for name, topic_id, partitions in request.topics:
        topic = ctx.topic_name(name or "", topic_id) or ""
        results = []
        for part in partitions:
            outcome, log_start = next(left)
            if isinstance(outcome, KafkaError):
                answer = _refuse(ctx, part.index, outcome.code, outcome.message, topic)
            else:
                numbers = part.index, 0, outcome, NO_APPEND_TIME, log_start
                answer = _new(ProducePartitionResponse, numbers + _NO_ERROR)
            results.append(answer)
        topics.append(_new(ProduceTopicResponse, (name, topic_id, results)))
    return _answer(ctx, listener, topics)


def _finish(each: _Round, topics: list[ProduceTopicResponse]) -> object:
    """Every partition has its answer, or a promise of one."""
    ctx, info, request, _, waiting, _, _ = each
    if not request.acks:
        return None if _first_error(topics) is None else Hangup("refused, and acks=0 has no answer")
    if waiting:
        return answer_when_committed(
            ctx, waiting, request.timeout_ms, lambda: _answer(ctx, info.listener, topics)
        )
    response = _answer(ctx, info.listener, topics)
    if not ctx.cluster.is_heard and _first_error(topics) == ErrorCode.not_leader_or_follower:
        return Hangup("this broker does not know the current leader", response)
    return response


class _Late:
    """A batch whose validation takes long, and whether its partition's answer is known."""

    __slots__ = ("is_settled", "on_settled")

    def __init__(self) -> None:
        self.is_settled = False
        self.on_settled: Callable[[], None] | None = None

    def settle(self) -> None:
        """The answer is known."""
        self.is_settled = True
        if self.on_settled is not None:
            self.on_settled()


def _when_validated(each: _Round, finish: Callable[[], object]) -> object:
    """The answer of `finish` once every batch has been validated: now, or by a token."""
    left = [late for late in each.late if not late.is_settled]
    if not left:
        return finish()
    count = len(left)
    now_ms = each.ctx.clock.monotonic_ms()
    token = Promise(
        each.ctx.parked,
        now_ms + max(each.request.timeout_ms, 0) + VALIDATION_SLACK_MS,
        lambda: Hangup("a batch was not validated in time"),
    )

    def one_less() -> None:
        nonlocal count
        count -= 1
        # The coordinator is not asked to verify on behalf of a client that is gone.
        if not count and token.is_wanted:
            pass_on(finish(), token)

    for late in left:
        late.on_settled = one_less
    return token


class _Held(NamedTuple):
    """A batch that waits until its transaction is verified, and the place of its answer."""

    tp: TopicPartition
    hosted: HostedPartition
    validated: Validated
    results: list[ProducePartitionResponse]
    at: int


def _when_verified(each: _Round, held: list[_Held], finish: Callable[[], object]) -> object:
    """The answer of `finish` once the coordinator has verified for each batch that its partition is
    in the transaction."""
    ctx, info, request, *_ = each
    assert request.transactional_id is not None
    first = held[0].validated.header
    producer = first.producer_id, first.producer_epoch
    claim = Claim(request.transactional_id, *producer, adds_partitions(info))

    def told(one: _Held, code: ErrorCode) -> None:
        index = one.tp.partition
        if code is ErrorCode.none:
            one.results[one.at] = _stored(_now(each), *one)
            return
        told_as = abortable(info, AS_PRODUCED.get(code, code))
        if told_as is ErrorCode.not_enough_replicas:
            one.hosted.partition.refusals.note(one.validated.header, told_as)
        one.results[one.at] = _refuse(
            ctx, index, told_as, f"the transaction's coordinator answered {code.name}"
        )

    wanted = []
    for one in held:
        header = one.validated.header
        # A request has one transactional id: another producer in it is not of its transaction.
        if header.producer_id == claim.producer_id and header.producer_epoch == claim.epoch:
            wanted.append((one.tp, one.hosted, partial(told, one)))
        else:
            told(one, ErrorCode.invalid_producer_id_mapping)
    answer = go_on_when_verified(ctx, claim, wanted, request.timeout_ms, finish)
    return answer if request.acks else None


def _first_error(topics: list[ProduceTopicResponse]) -> int | None:
    return next((part[1] for _, _, parts in topics for part in parts if part[1]), None)


def _answer(ctx: Context, listener: str, topics: list[ProduceTopicResponse]) -> ProduceResponse:
    leaders = {
        part.leader_id for _, _, parts in topics for part in parts if part[1] and part[7] >= 0
    }
    endpoints = node_endpoints(ctx, leaders, listener) if leaders else ()
    return _new(ProduceResponse, (topics, 0, endpoints))


def _append(
    each: _Round,
    topic: str,
    part: ProducePartition,
    results: list[ProducePartitionResponse],
    at: int,
) -> ProducePartitionResponse:
    """The answer, for its place in `results`; it may be only a promise of one."""
    ctx = each.ctx
    index, records = part
    if topic in INTERNAL_TOPICS:
        return _refuse(ctx, index, ErrorCode.invalid_topic_exception, "the broker's own topic")
    if not records:
        return _refuse(ctx, index, ErrorCode.invalid_record, "no record batch")
    try:
        tp = (topic, index)
        hosted = ctx.hosted.partitions.get(tp) or _hosted(ctx, topic, part)
        queue, settings = ctx.clients.validations, hosted.settings
        if is_of_mirror(hosted, each.request.transactional_id):
            return _mirrored(each, tp, hosted, records, results, at)
        validate = validate_batch if settings.log.compression is None else validate_for_storage
        # A batch must not overtake an earlier one of its partition that is still being validated.
        validated = (
            validate(settings, records, each.now_ms, room=queue.room, is_loop=True)
            if tp not in queue.partitions
            else None
        )
    except (KafkaError, CorruptData) as error:
        return _refused(ctx, topic, index, error)
    if validated is None:
        return _append_later(each, tp, hosted, records, results, at)
    if each.request.transactional_id is not None and must_verify_batch(
        ctx, tp, hosted, validated.header, adds=adds_partitions(each.info)
    ):
        each.held.append(_Held(TopicPartition(*tp), hosted, validated, results, at))
        return _UNDECIDED
    return _stored(each, tp, hosted, validated, results, at)


def _mirrored(
    each: _Round,
    tp: tuple[str, int],
    hosted: HostedPartition,
    records: memoryview,
    results: list[ProducePartitionResponse],
    at: int,
) -> ProducePartitionResponse:
    """The answer to batches with offsets of their own. Raises KafkaError, CorruptData."""
    ctx, request = each.ctx, each.request
    check_session(hosted, request.transactional_id)
    base_offset, end_offset = append_mirrored(ctx, tp, hosted, records, request.acks, each.now_ms)
    if request.acks == ACKS_ALL and not hosted.is_all_committed:
        each.waiting.append(_promise(ctx, tp, hosted, end_offset, results, at))
    numbers = (tp[1], 0, base_offset, NO_APPEND_TIME, hosted.log.log_start_offset)
    return _new(ProducePartitionResponse, numbers + _NO_ERROR)


def _append_later(
    each: _Round,
    tp: tuple[str, int],
    hosted: HostedPartition,
    records: memoryview,
    results: list[ProducePartitionResponse],
    at: int,
) -> ProducePartitionResponse:
    """Validate on another thread; returns the provisional answer."""
    ctx = each.ctx
    late = _Late()
    each.late.append(late)

    def judged(verdict: Verdict) -> None:
        if not isinstance(verdict, Validated):
            results[at] = _refused(ctx, *tp, verdict)
        elif ctx.hosted.partitions.get(tp) is not hosted:
            gone = "the partition was closed meanwhile"
            results[at] = _refused(ctx, *tp, KafkaError(ErrorCode.not_leader_or_follower, gone))
        elif each.request.transactional_id is not None and must_verify_batch(
            ctx, tp, hosted, verdict.header, adds=adds_partitions(each.info)
        ):
            _when_verified(
                each, [_Held(TopicPartition(*tp), hosted, verdict, results, at)], late.settle
            )
            return
        else:
            results[at] = _stored(_now(each), tp, hosted, verdict, results, at)
        late.settle()

    results.append(_UNDECIDED)  # reserves its place: the verdict may come at once
    ctx.clients.validations.validate(
        ctx.ports.validation, tp, hosted.settings, records, each.now_ms, judged
    )
    return results.pop()


def _now(each: _Round) -> _Round:
    """The same round at the current time."""
    return each._replace(now_ms=each.ctx.clock.now_ms())


def _stored(
    each: _Round,
    tp: tuple[str, int],
    hosted: HostedPartition,
    validated: Validated,
    results: list[ProducePartitionResponse],
    at: int,
) -> ProducePartitionResponse:
    """The answer to a batch that passed every check."""
    ctx, _, request, now_ms, waiting, _, _ = each
    acks = request.acks
    try:
        base_offset, append_time_ms = append_batch(
            ctx, tp, hosted, validated, acks, now_ms,
            in_transaction=request.transactional_id is not None,
        )  # fmt: skip
    except KafkaError as error:
        return _refused(ctx, *tp, error)
    if acks == ACKS_ALL and not hosted.is_all_committed:
        end_offset = base_offset + validated.header.last_offset_delta + 1
        waiting.append(_promise(ctx, tp, hosted, end_offset, results, at))
    numbers = (tp[1], 0, base_offset, append_time_ms, hosted.log.log_start_offset)
    return _new(ProducePartitionResponse, numbers + _NO_ERROR)


def _hosted(ctx: Context, topic: str, part: ProducePartition) -> HostedPartition:
    """Raises KafkaError."""
    try:
        return ctx.hosted_partition(topic, part.index)
    except KafkaError as error:
        if error.code is not ErrorCode.not_leader_or_follower:
            _note_early(ctx, topic, part)
        raise


def _note_early(ctx: Context, topic: str | UUID | None, part: ProducePartition) -> None:
    """A batch refused because its partition is gone, or is created by a block a moment later."""
    if topic is not None and part.records and len(part.records) >= HEADER_BYTES:
        ctx.hosted.early_refusals.note(topic, part.index, parse_header(part.records))


def _promise(
    ctx: Context,
    tp: tuple[str, int],
    hosted: HostedPartition,
    end_offset: int,
    results: list[ProducePartitionResponse],
    at: int,
) -> Appended:
    """An answer that holds once the batch (or the one it repeats) is on every in-sync replica."""

    def settle(error: KafkaError | None) -> None:
        if error is not None:
            results[at] = _refuse(ctx, tp[1], error.code, error.message, tp[0])

    return _new(Appended, (ctx, tp, hosted, end_offset, settle))


def _append_of_old_client(
    each: _Round,
    topic: str,
    part: ProducePartition,
    results: list[ProducePartitionResponse],
    at: int,
) -> ProducePartitionResponse:
    """For clients that may not know the codec they send (KIP-110), or that send message sets.

    Versions 0 to 2 are for message formats 0 and 1 (KIP-724). They are listed because librdkafka
    before 2.11 does not compress for a broker without version 0 (KAFKA-18659), though it never uses
    it.
    """
    records = part.records
    if records and len(records) > MAGIC_AT and records[MAGIC_AT] < RECORD_BATCH:
        code = ErrorCode.unsupported_for_message_format
        return _refuse(
            each.ctx, part.index, code, "only record batches (message format 2) are stored"
        )
    if records and len(records) > ATTRIBUTES_AT and records[ATTRIBUTES_AT] & 7 == ZSTD:
        code = ErrorCode.unsupported_compression_type
        return _refuse(each.ctx, part.index, code, "zstd needs Produce v7")
    return _append(each, topic, part, results, at)


def _refused(
    ctx: Context, topic: str, index: int, error: KafkaError | CorruptData
) -> ProducePartitionResponse:
    if isinstance(error, CorruptData):
        return _refuse(ctx, index, ErrorCode.corrupt_message, str(error))
    answer = _refuse(ctx, index, error.code, error.message, topic)
    if isinstance(error, RecordsRefusedError):
        faults = tuple(RecordError(*fault) for fault in error.faults)
        return answer._replace(record_errors=faults)
    return answer


def _refuse(
    ctx: Context, index: int, code: ErrorCode, message: str | None = None, topic: str = ""
) -> ProducePartitionResponse:
    ctx.counters.refused_batches += 1
    leader = leader_of(ctx, topic, index, code)
    return ProducePartitionResponse(
        index,
        code.value,
        error_message=message or None,
        leader_id=leader[0] if leader else -1,
        leader_epoch=leader[1] if leader else -1,
    )
