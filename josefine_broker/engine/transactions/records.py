"""The record of a transactional id in `__transaction_state`: Kafka's TransactionLogKey v0 and
TransactionLogValue v0, or v1 once `transaction.version` is finalized.

Rules: Kafka's tools can read these records; a null value deletes the id. Unknown versions of the
value are refused: the decisions of a newer broker must not be forgotten.
"""

from struct import Struct

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import ProducerEpoch, ProducerId, TopicPartition, by_topic
from josefine_broker.engine.transactions.states import TransactionState
from josefine_broker.engine.transactions.values import (
    NO_PRODUCER_ID,
    VERSION_1,
    Producer,
    TransactionRecord,
)
from josefine_broker.wire.primitives import (
    MALFORMED,
    read_compact_string,
    read_count,
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    read_nullable_compact_count,
    read_string,
    read_tag,
    read_varint,
    skip_tags,
    write_compact_count,
    write_compact_string,
    write_count,
    write_int8,
    write_int16,
    write_int32,
    write_int64,
    write_string,
    write_varint,
)

KEY_VERSION = 0
"""The version is the kind of the key, too: other numbers are skipped."""
PLAIN_VERSION = 0
"""Without tagged fields: every broker can read it."""
TAGGED_VERSION = 1
"""With tagged fields (KIP-890), which older brokers cannot read."""
PREVIOUS_ID_TAG, NEXT_ID_TAG, CLIENT_VERSION_TAG, NEXT_EPOCH_TAG = 0, 1, 2, 3
_INT16, _INT64 = Struct(">h"), Struct(">q")
_TAGS = {
    PREVIOUS_ID_TAG: _INT64,
    NEXT_ID_TAG: _INT64,
    CLIENT_VERSION_TAG: _INT16,
    NEXT_EPOCH_TAG: _INT16,
}

STATUS: dict[TransactionState, int] = {
    # In the order of TransactionState.java. The numbers are on disk: they never change.
    TransactionState.EMPTY: 0,
    TransactionState.ONGOING: 1,
    TransactionState.PREPARE_COMMIT: 2,
    TransactionState.PREPARE_ABORT: 3,
    TransactionState.COMPLETE_COMMIT: 4,
    TransactionState.COMPLETE_ABORT: 5,
    TransactionState.DEAD: 6,
}
"""Kafka's numbers."""
_STATES = {status: state for state, status in STATUS.items()}


def encode_key(transactional_id: str) -> bytes:
    """TransactionLogKey v0."""
    out = bytearray()
    write_int16(out, KEY_VERSION)
    write_string(out, transactional_id)
    return bytes(out)


def decode_key(key: bytes) -> str | None:
    """The transactional id; None for a key of another kind. Raises CorruptData."""
    try:
        version, pos = read_int16(key, 0)
        return read_string(key, pos)[0] if version == KEY_VERSION else None
    except MALFORMED as error:
        raise CorruptData(f"transaction key {key!r}: {error}") from error


def encode_value(record: TransactionRecord, version: int = PLAIN_VERSION) -> bytes:
    """TransactionLogValue of that version; fields that version 0 lacks are omitted.

    Raises nothing: the fields were checked when their requests were. `version` must be one that
    every broker of the cluster can read, because any of them may load the partition next.
    """
    is_flexible = version >= TAGGED_VERSION
    topics = by_topic(sorted(record.partitions))  # sorted: equal records are equal bytes
    # Flexible versions have compact strings and counts (KIP-482).
    text, length = (
        (write_compact_string, write_compact_count) if is_flexible else (write_string, write_count)
    )
    out = bytearray()
    write_int16(out, version)
    write_int64(out, record.producer.producer_id)
    write_int16(out, record.producer.epoch)
    write_int32(out, record.timeout_ms)
    write_int8(out, STATUS[record.state])
    length(out, len(topics))
    for topic, indexes in topics.items():
        text(out, topic)
        length(out, len(indexes))
        for index in indexes:
            write_int32(out, index)
        if is_flexible:
            # Tagged fields of the topic itself: there are none.
            write_varint(out, 0)
    # Wall clock: a transactional id expires by it, also on another broker
    # (transactional.id.expiration.ms).
    write_int64(out, record.updated_ms)
    write_int64(out, record.started_ms)
    if is_flexible:
        _write_tags(out, record)
    return bytes(out)


def _write_tags(out: bytearray, record: TransactionRecord) -> None:
    """Write the tagged fields that differ from their default, by number (KIP-482)."""
    tags: list[tuple[int, Struct, int]] = []
    if record.previous_id != NO_PRODUCER_ID:
        tags.append((PREVIOUS_ID_TAG, _INT64, record.previous_id))
    if record.next_id != NO_PRODUCER_ID:
        tags.append((NEXT_ID_TAG, _INT64, record.next_id))
    if record.version:
        tags.append((CLIENT_VERSION_TAG, _INT16, record.version))
    if record.next_epoch:
        tags.append((NEXT_EPOCH_TAG, _INT16, record.next_epoch))
    # Each is its number, its size in bytes and its value, so that a reader can skip what it does
    # not know. A default is omitted: the record stays as short as one of version 0.
    write_varint(out, len(tags))
    for tag, packed, value in tags:
        write_varint(out, tag)
        write_varint(out, packed.size)
        out += packed.pack(value)


def decode_value(value: bytes) -> TransactionRecord:
    """The record of a TransactionLogValue v0 or v1. Raises CorruptData."""
    try:
        return _decode_value(value)
    except MALFORMED as error:
        raise CorruptData(f"transaction value {value[:40]!r}…: {error}") from error


def _decode_value(value: bytes) -> TransactionRecord:
    """Raises CorruptData, and what malformed bytes raise."""
    version, pos = read_int16(value, 0)
    if version not in (PLAIN_VERSION, TAGGED_VERSION):
        raise CorruptData(f"transaction value of version {version}")
    producer_id, pos = read_int64(value, pos)
    epoch, pos = read_int16(value, pos)
    timeout_ms, pos = read_int32(value, pos)
    status, pos = read_int8(value, pos)
    # A state of a newer broker: to guess one could commit what was aborted.
    if status not in _STATES:
        raise CorruptData(f"transaction value with unknown status {status}")
    partitions, pos = _read_partitions(value, pos, is_flexible=version == TAGGED_VERSION)
    updated_ms, pos = read_int64(value, pos)
    started_ms, pos = read_int64(value, pos)
    tags = _read_tags(value, pos) if version == TAGGED_VERSION else {}
    return TransactionRecord(
        producer=Producer(ProducerId(producer_id), ProducerEpoch(epoch)),
        timeout_ms=timeout_ms,
        state=_STATES[status],
        partitions=partitions,
        updated_ms=updated_ms,
        started_ms=started_ms,
        previous_id=ProducerId(tags.get(PREVIOUS_ID_TAG, NO_PRODUCER_ID)),
        next_id=ProducerId(tags.get(NEXT_ID_TAG, NO_PRODUCER_ID)),
        version=tags.get(CLIENT_VERSION_TAG, VERSION_1),
        next_epoch=ProducerEpoch(tags.get(NEXT_EPOCH_TAG, 0)),
    )


def _read_partitions(
    value: bytes, pos: int, *, is_flexible: bool
) -> tuple[frozenset[TopicPartition], int]:
    """The partitions in the transaction; null in the states that have none."""
    length = read_nullable_compact_count if is_flexible else read_count
    text = read_compact_string if is_flexible else read_string
    count, pos = length(value, pos)
    partitions = set()
    # Null and an empty list mean the same here: Kafka writes null in the state Empty.
    for _ in range(count or 0):
        topic, pos = text(value, pos)
        index_count, pos = length(value, pos)
        for _ in range(index_count or 0):
            index, pos = read_int32(value, pos)
            partitions.add(TopicPartition(topic, index))
        if is_flexible:
            pos = skip_tags(value, pos)
    return frozenset(partitions), pos


def _read_tags(value: bytes, pos: int) -> dict[int, int]:
    """The known tagged fields; others are skipped (KIP-482)."""
    tags = {}
    count, pos = read_varint(value, pos)
    for _ in range(count):
        tag, size, pos = read_tag(value, pos)
        packed = _TAGS.get(tag)
        # A known tag of another size would shift the fields after it: that is damage, not a new
        # field.
        if packed is not None:
            if size != packed.size:
                raise CorruptData(f"tag {tag} of a transaction value has {size} bytes")
            tags[tag] = packed.unpack_from(value, pos)[0]
        pos += size
    return tags
