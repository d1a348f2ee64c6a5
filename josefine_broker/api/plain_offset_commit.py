"""Plain OffsetCommit requests: of one partition, without metadata.

Rules: it does what `api/offset_commit.py` does, with the same bytes and the same record. A request
that would be refused, or that this module does not know, is left to that path, and then nothing was
stored here. The codec reads each request once: the next ones of a consumer differ in their
correlation id and offset alone.
"""

from functools import lru_cache
from typing import NamedTuple

from josefine_broker.api import offset_commit
from josefine_broker.api.plain_fetch import Sender
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of, store_offsets
from josefine_broker.engine.groups.offsets import NO_EXPIRY_MS, CommittedOffset
from josefine_broker.engine.purgatory.purgatory import Encoded, Parked
from josefine_broker.engine.replicas.plain_batches import is_open
from josefine_broker.wire.apis import OFFSET_COMMIT
from josefine_broker.wire.codec import RequestHeader, encode_request, encode_response
from josefine_broker.wire.entities import offset_commit as e
from josefine_broker.wire.known_requests import (
    FRAME_BYTES_MAX,
    KNOWN_MAX,
    KnownAnswer,
    header_of,
    read_once,
)
from josefine_broker.wire.primitives import Buffer

__all__ = ["commit_plain"]

RETENTION_UNTIL, INSTANCE_SINCE, FLEXIBLE_SINCE, IDS_SINCE = 4, 7, 8, 10
REST_BYTES = {2: 2, 3: 2, 4: 2, 5: 2, 6: 6, 7: 6, 8: 8, 9: 8, 10: 8}
"""Version → the size of what follows the offset: leader epoch, no metadata, no tagged fields."""
NULL = 0xFFFF
ONE, COMPACT_ONE = b"\0\0\0\x01", 2
"""The count of the topics, and of the partitions."""
NO_OFFSET = bytes(8)
_new = tuple.__new__


def commit_plain(
    ctx: Context, frame: memoryview, _sender: Sender
) -> "list[Buffer] | tuple[RequestHeader, Parked] | None":
    """The whole response, or the header and what waits for the commit, which is completed with an
    `Encoded`. None: nothing was done."""
    at = _offset_at(frame)
    if not at or not is_open(ctx):
        return None
    known = _known(b"".join((frame[:4], frame[8:at], NO_OFFSET, frame[at + 8 :])))
    if known is None:
        return None
    header, request, topic, part, stored = known
    try:
        place = coordinator_of(ctx, request.group_id)
    except KafkaError:
        return None
    if offset_commit.verdict(ctx, header.api_version, request) is not ErrorCode.none:
        return None
    name = ctx.topic_name(topic.name, topic.topic_id)
    entry = ctx.image.topics.get(name or "")
    if entry is None or not 0 <= part.partition_index < len(entry.partitions):
        return None
    offset = int.from_bytes(frame[at : at + 8], "big", signed=True)
    values = offset, part.committed_leader_epoch, "", ctx.clock.now_ms(), NO_EXPIRY_MS
    tp = _new(TopicPartition, (name, part.partition_index))
    correlation = bytes(frame[4:8])

    def build(error: KafkaError | None) -> Encoded:
        if error is None:
            return Encoded(stored.to(correlation))
        refusal = offset_commit.refuse(request, error)
        return Encoded(encode_response(*header_of(header, correlation)[:3], refusal))

    try:
        committed = _new(CommittedOffset, values)
        answer = store_offsets(ctx, request.group_id, [(tp, committed)], build, place)
    except KafkaError:  # nothing was written, and the route has the error
        return None
    if isinstance(answer, Parked):
        return header_of(header, correlation), answer
    assert isinstance(answer, Encoded)
    return answer.buffers


def _offset_at(frame: memoryview) -> int:
    """Where the frame has the offset if it commits one; whether it does is not certain. 0: it is
    not plain. The point is that frames of other forms need no copy, and are not kept."""
    size = len(frame)
    rest = REST_BYTES.get(frame[3]) if 10 < size <= FRAME_BYTES_MAX else None
    if rest is None:
        return 0
    try:
        at = _after_flexible(frame) if frame[3] >= FLEXIBLE_SINCE else _after_text(frame)
    except IndexError:
        return 0
    return at if size - at == 8 + rest else 0


def _after_flexible(frame: memoryview) -> int:
    """What follows the partition's index. A length has one more than the text, 0 is null."""
    at = _after(frame, 8)
    if frame[at]:  # tagged fields
        return 0
    at += 1
    at += frame[at] + 4  # the group, and the generation
    at += frame[at]  # the member
    at += frame[at] or 1  # the static member
    if frame[at] != COMPACT_ONE:
        return 0
    at += 1
    at += 16 if frame[3] >= IDS_SINCE else frame[at]
    return at + 5 if frame[at] == COMPACT_ONE else 0


def _after_text(frame: memoryview) -> int:
    """The same, of versions before the flexible ones."""
    at = _after(frame, 8)
    at = _after(frame, at) + 4
    at = _after(frame, at)
    if frame[3] >= INSTANCE_SINCE:
        at = _after(frame, at)
    elif frame[3] <= RETENTION_UNTIL:
        at += 8
    if frame[at : at + 4] != ONE:
        return 0
    at = _after(frame, at + 4)
    return at + 8 if frame[at : at + 4] == ONE else 0


def _after(frame: memoryview, at: int) -> int:
    """What follows a text with a length of two bytes."""
    size = frame[at] << 8 | frame[at + 1]
    return at + 2 if size == NULL else at + 2 + size


class _Known(NamedTuple):
    """A request, but for its correlation id and offset."""

    header: RequestHeader
    request: e.OffsetCommitRequest
    topic: e.OffsetCommitRequestTopic
    part: e.OffsetCommitRequestPartition
    stored: KnownAnswer
    """Its answer where the offset is stored."""


@lru_cache(KNOWN_MAX)
def _known(key: bytes) -> _Known | None:
    """None: its route must serve it."""
    found = read_once(key)
    if found is None:
        return None
    header, request = found
    version: int = header.api_version
    # Exactly as the codec writes it: then the offset is where `_offset_at` expects it.
    again = b"".join(encode_request(OFFSET_COMMIT, version, 0, header.client_id, request))
    if again[4:8] + again[12:] != key or request.retention_time_ms >= 0:
        return None
    parts = [(topic, part) for topic in request.topics for part in topic.partitions]
    if len(request.topics) != 1 or len(parts) != 1 or parts[0][1].committed_metadata:
        return None
    ((topic, part),) = parts
    answer = offset_commit.stored(request)
    return _Known(header, request, topic, part, KnownAnswer(OFFSET_COMMIT, version, answer))
