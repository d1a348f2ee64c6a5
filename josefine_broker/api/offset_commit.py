"""OffsetCommit (key 8): committed offsets of a group, written to `__consumer_offsets`.

A member commits in its generation; a client without one (-1: simple consumers, admins) may commit
while the group has no members. One batch per request: all valid offsets are stored, or none; errors
are per partition. Topic ids since v10 (KIP-848). A generation of a missing group is
GROUP_ID_NOT_FOUND since v9 (KIP-848), ILLEGAL_GENERATION before. A member of the consumer protocol
commits in its epoch, by v9 or later: another epoch gets STALE_MEMBER_EPOCH. Versions 2 to 4 may
name a retention time, which counts from the level of josefine.version at which every broker reads
such records.
"""

from functools import lru_cache

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of, store_offsets
from josefine_broker.engine.groups.offsets import NO_EXPIRY_MS, CommittedOffset
from josefine_broker.engine.groups.values import Identity
from josefine_broker.wire.entities import offset_commit as e

GROUP_NOT_FOUND_SINCE = 9
IDS_SINCE = 10
ANSWERS_MAX = 4_096
"""Cached answers of single partitions: making one is the most expensive part of its commit."""
_new = tuple.__new__

_Codes = dict[tuple[int, int], ErrorCode]
"""Error by position in the request: (topic, partition)."""


def handle(ctx: Context, info: RequestInfo, request: e.OffsetCommitRequest) -> object:
    """Store the valid offsets; errors are per partition."""
    place = coordinator_of(ctx, request.group_id)
    code = verdict(ctx, info.header.api_version, request)
    if code is not ErrorCode.none:
        return _answer(request, _unknown(ctx, request), code)
    now_ms = ctx.clock.now_ms()
    kept_ms = request.retention_time_ms
    has_expiry = kept_ms >= 0 and ctx.image.offsets_may_expire
    expire_ms = now_ms + kept_ms if has_expiry else NO_EXPIRY_MS
    metadata_max = ctx.settings.offsets.metadata_bytes_max
    codes: _Codes = {}
    offsets = []
    by_id = info.header.api_version >= IDS_SINCE
    for at, topic in enumerate(request.topics):
        name = ctx.topic_name((topic.name or None) if by_id else topic.name, topic.topic_id)
        entry = None if name is None else ctx.image.topics.get(name)
        partition_count = 0 if entry is None else len(entry.partitions)
        unknown = (
            ErrorCode.unknown_topic_id if name is None else ErrorCode.unknown_topic_or_partition
        )
        for nth, part in enumerate(topic.partitions):
            metadata = part.committed_metadata or ""
            if not 0 <= part.partition_index < partition_count:
                codes[at, nth] = unknown
            elif metadata and len(metadata) > metadata_max:
                codes[at, nth] = ErrorCode.offset_metadata_too_large
            else:
                # Runs per partition: the named constructors would cost three times as much.
                values = part.committed_offset, part.committed_leader_epoch, metadata
                committed = _new(CommittedOffset, (*values, now_ms, expire_ms))
                offsets.append((_new(TopicPartition, (name, part.partition_index)), committed))
    if not offsets:
        return _answer(request, codes, ErrorCode.none)
    return store_offsets(
        ctx,
        request.group_id,
        offsets,
        lambda error: _answer(request, codes, ErrorCode.none if error is None else error.code),
        place,
    )


def stored(request: e.OffsetCommitRequest) -> e.OffsetCommitResponse:
    """The answer when all offsets are stored."""
    return _answer(request, {}, ErrorCode.none)


def refuse(request: e.OffsetCommitRequest, error: KafkaError) -> e.OffsetCommitResponse:
    """The answer when the whole request is refused."""
    return _answer(request, {}, error.code)


def _unknown(ctx: Context, request: e.OffsetCommitRequest) -> _Codes:
    """The missing partitions: Kafka reports those even to a member that may not commit, because its
    group never sees them."""
    codes: _Codes = {}
    for at, topic in enumerate(request.topics):
        name = ctx.topic_name(topic.name, topic.topic_id)
        entry = None if name is None else ctx.image.topics.get(name)
        count = 0 if entry is None else len(entry.partitions)
        code = ErrorCode.unknown_topic_id if name is None else ErrorCode.unknown_topic_or_partition
        for nth, part in enumerate(topic.partitions):
            if not 0 <= part.partition_index < count:
                codes[at, nth] = code
    return codes


def verdict(ctx: Context, api_version: int, request: e.OffsetCommitRequest) -> ErrorCode:
    """Whether the member, or a client without one, may commit."""
    code = ctx.clients.groups.coordinator.may_commit(
        request.group_id,
        Identity(request.member_id, request.group_instance_id),
        request.generation_id_or_member_epoch,
        ctx.clock.monotonic_ms(),
    )
    claims_one = request.generation_id_or_member_epoch >= 0
    if claims_one and api_version < GROUP_NOT_FOUND_SINCE:
        group = ctx.clients.groups.coordinator.consumers.get(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if member is not None and member.classic is None:
            return ErrorCode.unsupported_version
        if code is ErrorCode.group_id_not_found:
            return ErrorCode.illegal_generation
    return code


@lru_cache(maxsize=ANSWERS_MAX)
def _said(partition: int, code: ErrorCode) -> e.OffsetCommitResponsePartition:
    return e.OffsetCommitResponsePartition(partition_index=partition, error_code=code)


def _answer(
    request: e.OffsetCommitRequest, codes: _Codes, otherwise: ErrorCode
) -> e.OffsetCommitResponse:
    topics = []
    for at, topic in enumerate(request.topics):
        parts = [
            _said(part.partition_index, codes.get((at, nth), otherwise) if codes else otherwise)
            for nth, part in enumerate(topic.partitions)
        ]
        topics.append(
            e.OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=tuple(parts)
            )
        )
    return e.OffsetCommitResponse(topics=tuple(topics))
