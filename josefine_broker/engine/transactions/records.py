"""A transactional id's record in `__transaction_state`: Kafka's TransactionLogKey v0 and
TransactionLogValue v0.

Rules: Kafka's tools read what is written here; a null value forgets the id. Versions of the value
that are not known are refused: what a later broker decided must not be forgotten.
"""

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import ProducerEpoch, ProducerId, TopicPartition
from josefine_broker.engine.transactions.states import TransactionState
from josefine_broker.engine.transactions.values import Producer, TransactionRecord
from josefine_broker.wire.primitives import (
    MALFORMED,
    read_count,
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    read_string,
    write_count,
    write_int8,
    write_int16,
    write_int32,
    write_int64,
    write_string,
)

KEY_VERSION = 0
VALUE_VERSION = 0

STATUS: dict[TransactionState, int] = {
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
    """The transactional id; None: a key of another kind. Raises CorruptData."""
    try:
        version, pos = read_int16(key, 0)
        return read_string(key, pos)[0] if version == KEY_VERSION else None
    except MALFORMED as error:
        raise CorruptData(f"transaction key {key!r}: {error}") from error


def encode_value(record: TransactionRecord) -> bytes:
    """TransactionLogValue v0."""
    topics: dict[str, list[int]] = {}
    for tp in sorted(record.partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    out = bytearray()
    write_int16(out, VALUE_VERSION)
    write_int64(out, record.producer.producer_id)
    write_int16(out, record.producer.epoch)
    write_int32(out, record.timeout_ms)
    write_int8(out, STATUS[record.state])
    write_count(out, len(topics))
    for topic, indexes in topics.items():
        write_string(out, topic)
        write_count(out, len(indexes))
        for index in indexes:
            write_int32(out, index)
    write_int64(out, record.updated_ms)
    write_int64(out, record.started_ms)
    return bytes(out)


def decode_value(value: bytes) -> TransactionRecord:
    """Of a TransactionLogValue v0. Raises CorruptData."""
    try:
        return _decode_value(value)
    except MALFORMED as error:
        raise CorruptData(f"transaction value {value[:40]!r}…: {error}") from error


def _decode_value(value: bytes) -> TransactionRecord:
    version, pos = read_int16(value, 0)
    if version != VALUE_VERSION:
        raise CorruptData(f"transaction value of version {version}")
    producer_id, pos = read_int64(value, pos)
    epoch, pos = read_int16(value, pos)
    timeout_ms, pos = read_int32(value, pos)
    status, pos = read_int8(value, pos)
    if status not in _STATES:
        raise CorruptData(f"a transaction of status {status}")
    count, pos = read_count(value, pos)
    partitions = set()
    for _ in range(max(count, 0)):
        topic, pos = read_string(value, pos)
        index_count, pos = read_count(value, pos)
        for _ in range(index_count):
            index, pos = read_int32(value, pos)
            partitions.add(TopicPartition(topic, index))
    updated_ms, pos = read_int64(value, pos)
    started_ms, pos = read_int64(value, pos)
    return TransactionRecord(
        producer=Producer(ProducerId(producer_id), ProducerEpoch(epoch)),
        timeout_ms=timeout_ms,
        state=_STATES[status],
        partitions=frozenset(partitions),
        updated_ms=updated_ms,
        started_ms=started_ms,
    )
