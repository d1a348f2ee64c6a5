"""The records of share partitions in `__share_group_state`: Kafka's ShareSnapshotKey and
ShareSnapshotValue.

Rules: each record has the whole state, so the topic can be compacted, and the last record of a key
counts; a null value deletes. Kafka's own coordinator also writes differences (ShareUpdate, key 1):
they are refused, because a state without them would deliver finished records again.

KIP-932 describes both kinds in "Managing durable share-partition state". Differences would save
little here: at most about `locks_max` records are in flight, usually in few batches (ADR 0025).
"""

from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.groups.share.states import RecordState
from josefine_broker.engine.groups.share.values import (
    NO_COUNT,
    ShareKey,
    ShareState,
    StateBatch,
)
from josefine_broker.wire.primitives import (
    MALFORMED,
    read_compact_count,
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    read_string,
    read_tag,
    read_uuid,
    read_varint,
    skip_tags,
    write_compact_count,
    write_int8,
    write_int16,
    write_int32,
    write_int64,
    write_string,
    write_uuid,
    write_varint,
)

SNAPSHOT_KEY, UPDATE_KEY = 0, 1
"""The version of a key is the kind of its record."""
VALUE_VERSION = 0
COUNT_TAG = 0
"""How many records are finished above the start offset (KIP-1226)."""


def encode_key(key: ShareKey) -> bytes:
    """ShareSnapshotKey."""
    out = bytearray()
    write_int16(out, SNAPSHOT_KEY)
    write_string(out, key.group_id)
    write_uuid(out, key.topic_id)
    write_int32(out, key.partition)
    return bytes(out)


def decode_key(key: bytes) -> ShareKey | None:
    """The share partition; None for a key of a kind that did not exist. Raises CorruptData.

    Unknown kinds are skipped, as Kafka does, so that a newer version can add some. A difference is
    known, and known to matter.
    """
    try:
        kind, pos = read_int16(key, 0)
        if kind == UPDATE_KEY:
            raise CorruptData("a difference of a share state, which this broker does not write")
        if kind != SNAPSHOT_KEY:
            return None
        group_id, pos = read_string(key, pos)
        topic_id, pos = read_uuid(key, pos)
        partition, pos = read_int32(key, pos)
    except MALFORMED as error:
        raise CorruptData(f"share state key {key!r}: {error}") from error
    if topic_id is None:
        raise CorruptData(f"share state key {key!r} has no topic id")
    return ShareKey(group_id, topic_id, partition)


def encode_value(state: ShareState, now_ms: int) -> bytes:
    """ShareSnapshotValue. `now_ms` is wall clock time, for people who read the log."""
    out = bytearray()
    write_int16(out, VALUE_VERSION)
    write_int32(out, 0)  # the number of the snapshot, of which every record here is one
    write_int32(out, state.state_epoch)
    write_int32(out, state.leader_epoch)
    write_int64(out, state.start_offset)
    # Created and written: one time, as each record is a snapshot of its own.
    write_int64(out, now_ms)
    write_int64(out, now_ms)
    write_compact_count(out, len(state.batches))
    for each in state.batches:
        write_int64(out, each.first)
        write_int64(out, each.last)
        write_int8(out, each.state.value)
        write_int16(out, each.deliveries)
        write_varint(out, 0)
    if state.complete_count == NO_COUNT:
        write_varint(out, 0)
        return bytes(out)
    for number in (1, COUNT_TAG, 4):  # one tagged field: its tag, its size
        write_varint(out, number)
    write_int32(out, state.complete_count)
    return bytes(out)


def decode_value(value: bytes) -> ShareState:
    """The state. Raises CorruptData."""
    try:
        return _decode_value(value)
    # ValueError: a number that is not a RecordState.
    except (*MALFORMED, ValueError) as error:
        raise CorruptData(f"share state value {value[:40]!r}…: {error}") from error


def _decode_value(value: bytes) -> ShareState:
    """Raises CorruptData, and what malformed bytes raise."""
    version, pos = read_int16(value, 0)
    if version != VALUE_VERSION:
        raise CorruptData(f"share state value of version {version}")
    _, pos = read_int32(value, pos)
    state_epoch, pos = read_int32(value, pos)
    leader_epoch, pos = read_int32(value, pos)
    start_offset, pos = read_int64(value, pos)
    pos += 16  # when it was made and written
    count, pos = read_compact_count(value, pos)
    batches = []
    for _ in range(count):
        first, pos = read_int64(value, pos)
        last, pos = read_int64(value, pos)
        state, pos = read_int8(value, pos)
        deliveries, pos = read_int16(value, pos)
        pos = skip_tags(value, pos)
        batches.append(StateBatch(first, last, RecordState(state), deliveries))
    complete_count = NO_COUNT
    tags, pos = read_varint(value, pos)
    for _ in range(tags):
        tag, size, pos = read_tag(value, pos)
        # Older versions wrote no count: a lag is then unknown, not wrong.
        if tag == COUNT_TAG and size == 4:
            complete_count = read_int32(value, pos)[0]
        pos += size
    return ShareState(state_epoch, leader_epoch, start_offset, tuple(batches), complete_count)
