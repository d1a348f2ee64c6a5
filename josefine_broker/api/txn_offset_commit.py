"""TxnOffsetCommit (key 28, KIP-98): a group's offsets, committed in a producer's transaction.

They are written to the group's partition of `__consumer_offsets` as a batch of the transaction, and
count once its commit marker is written. A member sends its generation since version 3, and an older
generation is fenced (KIP-447). Topics have ids instead of names since version 6 (KIP-1319). All
valid offsets are stored, or none. The transaction's coordinator verifies the transaction before the
first write (KIP-890).
"""

from collections.abc import Callable

from josefine_broker.api.shared.transactions import abortable, adds_partitions
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import ProducerEpoch, ProducerId, TopicPartition
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of, store_pending_offsets
from josefine_broker.engine.coordinators.transaction_verification import (
    go_on_when_verified,
    must_verify,
)
from josefine_broker.engine.groups.offsets import CommittedOffset
from josefine_broker.engine.groups.values import Identity
from josefine_broker.engine.partition.questions import Claim
from josefine_broker.wire.entities import txn_offset_commit as e

_Codes = dict[tuple[int, int], ErrorCode]
"""By the places of a topic and of its partition in the request."""

IDS_SINCE = 6
CODES = {
    ErrorCode.group_id_not_found: ErrorCode.illegal_generation,
    ErrorCode.stale_member_epoch: ErrorCode.illegal_generation,
}
"""Group coordinator errors that versions before IDS_SINCE have no code for."""

AS_COMMITTED = {
    ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch,
    ErrorCode.concurrent_transactions: ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available: ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_coordinator: ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_load_in_progress,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_load_in_progress,
}
"""Errors of the transaction's coordinator, as the committing client gets them: after the other
codes it would look up the group's coordinator again, which is this broker."""


def handle(ctx: Context, info: RequestInfo, request: e.TxnOffsetCommitRequest) -> object:
    """Store the valid offsets; errors are per partition."""
    coordinator_of(ctx, request.group_id)
    codes = _unknown(ctx, info, request)
    verdict = _verdict(ctx, info, request)
    if verdict is not ErrorCode.none:
        return _answer(request, codes, verdict)
    now_ms = ctx.clock.now_ms()
    offsets = []
    for at, topic in enumerate(request.topics):
        name = _name(ctx, info, topic)
        for nth, part in enumerate(topic.partitions):
            if len(part.committed_metadata or "") > ctx.settings.offsets.metadata_bytes_max:
                codes.setdefault((at, nth), ErrorCode.offset_metadata_too_large)
            elif name is not None and (at, nth) not in codes:
                tp = TopicPartition(name, part.partition_index)
                offsets.append((tp, _value(part, now_ms)))
    if not offsets:
        return _answer(request, codes, ErrorCode.none)
    producer = ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)

    def store() -> object:
        return store_pending_offsets(
            ctx,
            request.group_id,
            producer,
            offsets,
            lambda error: _answer(request, codes, ErrorCode.none if error is None else error.code),
        )

    tp, hosted = coordinator_of(ctx, request.group_id)
    # One verification per transaction and partition is enough (KIP-890).
    if not must_verify(ctx, tp, hosted, producer, adds=adds_partitions(info)):
        return store()
    return _when_verified(ctx, info, request, codes, store)


def _when_verified(
    ctx: Context,
    info: RequestInfo,
    request: e.TxnOffsetCommitRequest,
    codes: _Codes,
    store: Callable[[], object],
) -> object:
    """Ask the transaction's coordinator first."""
    tp, hosted = coordinator_of(ctx, request.group_id)
    producer = ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)
    claim = Claim(request.transactional_id, *producer, adds_partitions(info))
    stored: list[object] = []

    def told(code: ErrorCode) -> None:
        try:
            if code is not ErrorCode.none:
                told_as = abortable(info, AS_COMMITTED.get(code, code))
                raise KafkaError(told_as, f"the transaction's coordinator answered {code.name}")
            stored.append(store())
        except KafkaError as error:
            stored.append(_answer(request, codes, error.code))

    timeout_ms = ctx.settings.offsets.timeout_ms
    return go_on_when_verified(ctx, claim, [(tp, hosted, told)], timeout_ms, stored.pop)


def refuse(request: e.TxnOffsetCommitRequest, error: KafkaError) -> e.TxnOffsetCommitResponse:
    """The answer when the whole request is refused."""
    return _answer(request, {}, error.code)


def _unknown(ctx: Context, info: RequestInfo, request: e.TxnOffsetCommitRequest) -> _Codes:
    """The missing partitions: Kafka reports those whatever the result of the others, because the
    group never sees them."""
    codes: _Codes = {}
    for at, topic in enumerate(request.topics):
        name = _name(ctx, info, topic)
        code = ErrorCode.unknown_topic_id if name is None else ErrorCode.unknown_topic_or_partition
        for nth, part in enumerate(topic.partitions):
            if name is None or ctx.image.partition(name, part.partition_index) is None:
                codes[at, nth] = code
    return codes


def _name(ctx: Context, info: RequestInfo, topic: e.TxnOffsetCommitRequestTopic) -> str | None:
    """None: the id is unknown, or there is none where there must be one."""
    by_id = info.header.api_version >= IDS_SINCE
    return ctx.topic_name((topic.name or None) if by_id else topic.name, topic.topic_id)


def _verdict(ctx: Context, info: RequestInfo, request: e.TxnOffsetCommitRequest) -> ErrorCode:
    """Whether the member may commit. A client that sends no member may: before KIP-447 producers
    were fenced by their transactional ids alone."""
    identity = Identity(request.member_id, request.group_instance_id)
    if request.generation_id < 0 and not request.member_id and identity.instance_id is None:
        return ErrorCode.none
    code = ctx.clients.groups.coordinator.may_commit(
        request.group_id, identity, request.generation_id, ctx.clock.monotonic_ms()
    )
    return code if info.header.api_version >= IDS_SINCE else CODES.get(code, code)


def _value(part: e.TxnOffsetCommitRequestPartition, now_ms: int) -> CommittedOffset:
    return CommittedOffset(
        offset=part.committed_offset,
        leader_epoch=part.committed_leader_epoch,
        metadata=part.committed_metadata or "",
        commit_time_ms=now_ms,
    )


def _answer(
    request: e.TxnOffsetCommitRequest, codes: _Codes, otherwise: ErrorCode
) -> e.TxnOffsetCommitResponse:
    return e.TxnOffsetCommitResponse(
        topics=tuple(
            e.TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    e.TxnOffsetCommitResponsePartition(
                        partition_index=part.partition_index,
                        error_code=codes.get((at, nth), otherwise),
                    )
                    for nth, part in enumerate(topic.partitions)
                ),
            )
            for at, topic in enumerate(request.topics)
        )
    )
