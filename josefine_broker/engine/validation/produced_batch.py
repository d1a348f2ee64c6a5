"""Validation of a produced batch by itself, before its partition checks it (Kafka's LogValidator).

Rules: every client batch passes `validate_batch`. It checks the header, the checksum and each
record's structure, and decompresses compressed records for that. The batch may be changed in place,
as in Kafka: its largest timestamp becomes that of its records, and its timestamp type the topic's.
Differences from Kafka are in COMPATIBILITY.md.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, NoReturn

from josefine_broker.base.errors import CorruptData, ErrorCode, Fatal, KafkaError
from josefine_broker.engine.metadata.log_config import TimestampType
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.records.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    NO_TIMESTAMP_MS,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    check_produced,
    check_whole,
    is_sound,
    parse_header,
    stamp_create_time,
)
from josefine_broker.records.body import Body, open_body
from josefine_broker.records.structure import WHY, Fault, Found, check, is_compiled
from josefine_broker.records.structure_twin import LOW_MS, RecordKeys, keys_and_times

__all__ = [
    "RecordFault",
    "RecordsRefusedError",
    "Validated",
    "loop_room",
    "thread_room",
    "validate_batch",
]

LOOP_BYTES_MAX = 2 * 1024 * 1024
"""An uncompressed batch up to this size is checked on the event loop (0.15 ms for records of 100
bytes); larger ones exist only if max.message.bytes was raised."""
LOOP_BYTES_MAX_IN_PYTHON = 16 * 1024
"""The same limit without the compiled check."""
LOOP_ROOM_BYTES = 256 * 1024
"""Decompressed size on the event loop: up to 1 ms for gzip, 0.1 ms for the others."""
THREAD_ROOM_BYTES = 2 * 1024 * 1024
"""Decompressed size that a thread tries first; larger batches get a buffer of their own."""
LOOP_PACKED_BYTES_MAX = 128 * 1024
"""A compressed batch above this size rarely fits into that room, so it is not tried."""
OLD_MAGICS = (0, 1)
"""Message sets, which preceded record batches (KIP-98)."""
OLD_BYTES_MIN = 14
"""The smallest length that one of those states."""
MAGIC_AT = 16
"""Position of the format number: the same in message sets and record batches."""
RECORD_ERRORS_MAX = 1_000
"""How many invalid records the answer names."""
SCANNED_MAX = 100_000
"""How many records of a refused batch are searched for invalid ones."""

_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much
_LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME


class RecordFault(NamedTuple):
    """Why one record made the broker refuse its batch (KIP-467)."""

    index: int  # type: ignore[assignment]
    """Position in the batch, from 0."""
    message: str


class RecordsRefusedError(KafkaError):
    """A batch is refused because of single records.

    `faults` has at most RECORD_ERRORS_MAX; a ProduceResponse names them since version 8 (KIP-467).
    """

    def __init__(self, code: ErrorCode, message: str, faults: tuple[RecordFault, ...]) -> None:
        super().__init__(code, message)
        self.faults = faults


class Validated(NamedTuple):
    """A batch that may be appended, and its header."""

    batch: memoryview
    header: BatchHeader


def loop_room() -> memoryview:
    """The buffer for decompression on the event loop, one batch at a time."""
    return memoryview(bytearray(LOOP_ROOM_BYTES))


def thread_room() -> memoryview:
    """The thread's buffer: most batches fit, which avoids retries with larger ones and zeroing."""
    return memoryview(bytearray(THREAD_ROOM_BYTES))


def validate_batch(
    settings: TopicSettings,
    batch: memoryview,
    now_ms: int,
    *,
    is_built: bool = False,
    room: memoryview | None = None,
    is_loop: bool = False,
) -> Validated | None:
    """The batch, ready to be appended. None: its validation is too slow for the event loop
    (`is_loop`). `room`: the buffer for decompressed records, if they fit.

    `batch` must be writable. `is_built`: this broker built it, so its records are not checked.
    Raises KafkaError and CorruptData.
    """
    log_config = settings.log
    size = len(batch)
    if size < HEADER_BYTES:
        _refuse(batch, log_config.message_bytes_max)
    header = parse_header(batch)
    if size > log_config.message_bytes_max or not is_sound(batch, header):
        _refuse(batch, log_config.message_bytes_max)
    if is_built or not log_config.validates_records:
        _check_stated_times(header, settings, now_ms)
        return _new(Validated, (batch, header))
    _, _, _, _, _, attributes, _, base_ms, max_ms, _, _, _, count = header
    if header.base_offset:
        raise KafkaError(
            ErrorCode.invalid_record, f"the batch's base offset is {header.base_offset}, not 0"
        )
    if attributes & (COMPRESSION_MASK | TIMESTAMP_TYPE_BIT) or size > LOOP_BYTES_MAX_IN_PYTHON:
        if is_loop and _takes_long(batch, header):
            return None
        body = open_body(batch, header, room, may_grow=not is_loop)
        if body is None:
            return None
    else:
        # The usual small batch, in as few steps as possible: they are a tenth of a small request.
        body = batch, HEADER_BYTES
    data, start = body
    found = check(data, start, count, base_ms, max_ms, "compact" in log_config.cleanup_policy)
    if (
        found is None
        and not attributes & TIMESTAMP_TYPE_BIT
        and (
            log_config.timestamp_type is _LOG_APPEND_TIME
            or (
                max_ms - now_ms <= settings.timestamp_after_max_ms
                and (
                    now_ms - base_ms <= settings.timestamp_before_max_ms
                    or base_ms == NO_TIMESTAMP_MS
                )
            )
        )
    ):
        return _new(Validated, (batch, header))
    return _judge(settings, batch, header, body, found, now_ms)


def _takes_long(batch: memoryview, header: BatchHeader) -> bool:
    """Whether the check could keep other clients waiting for more than about a millisecond."""
    if header.compression:
        return len(batch) > LOOP_PACKED_BYTES_MAX or not is_compiled
    return len(batch) > (LOOP_BYTES_MAX if is_compiled else LOOP_BYTES_MAX_IN_PYTHON)


def _judge(
    settings: TopicSettings,
    batch: memoryview,
    header: BatchHeader,
    body: Body,
    found: Found | None,
    now_ms: int,
) -> Validated:
    """Judge a batch whose records differ from its header. Raises KafkaError.

    A batch that agrees with its header, and whose times are in range, does not come here: that
    saves a call in the usual case.
    """
    log_config, count = settings.log, header.record_count
    says_append_time = header.attributes & TIMESTAMP_TYPE_BIT
    stamps_time = log_config.timestamp_type is _LOG_APPEND_TIME
    fault = Fault.SOUND if found is None else Fault(found[0])
    if found is not None and fault not in (Fault.SOUND, Fault.NO_KEY):
        raise KafkaError(ErrorCode.invalid_record, _where(found, count))
    if fault is Fault.NO_KEY:
        _refuse_records(settings, header, body, now_ms)
    if says_append_time and (stamps_time or header.max_timestamp_ms == NO_TIMESTAMP_MS):
        _refuse_records(settings, header, body, now_ms)
    if stamps_time:
        return _new(Validated, (batch, header))
    if says_append_time:
        # Readers use the largest timestamp for every record, so only that one counts.
        low_ms = high_ms = header.max_timestamp_ms
    elif found is None:
        low_ms, high_ms = header.base_timestamp_ms, header.max_timestamp_ms
    else:
        low_ms, high_ms = found[2], max(found[3], NO_TIMESTAMP_MS)
    _check_range(settings, header, body, low_ms, high_ms, now_ms)
    return _new(Validated, (batch, stamp_create_time(batch, 0, high_ms)))


def _where(found: Found, count: int) -> str:
    """The text for a batch whose structure is broken."""
    fault, index, _, _ = found
    if fault == Fault.LEFT_OVER:
        return f"the batch holds more than the {count} records that its header states"
    return f"record {index} of {count} cannot be read: {WHY[Fault(fault)]}"


def _refuse(batch: memoryview, message_bytes_max: int) -> NoReturn:
    """Report what is wrong with a batch that is too large or not sound, in Kafka's order. Raises
    KafkaError and CorruptData: a producer retries after a corrupt batch, and gives up otherwise."""
    if len(batch) < HEADER_BYTES:
        raise _incomplete(f"{len(batch)} bytes are less than a batch's header")
    header = parse_header(batch)
    size = header.size_bytes
    if header.magic in OLD_MAGICS:
        raise KafkaError(
            ErrorCode.invalid_record,
            f"message format {header.magic}: only record batches (format {MAGIC}) are stored",
        )
    if size > len(batch):
        raise _incomplete(f"a batch of {size} bytes, {len(batch)} are there")
    if header.magic == MAGIC and HEADER_BYTES <= size < len(batch):
        _refuse_more(batch[size:])
    if size > message_bytes_max:
        raise KafkaError(
            ErrorCode.message_too_large,
            f"a batch of {size} bytes, max.message.bytes is {message_bytes_max}",
        )
    check_whole(batch, 0, header)
    check_produced(header)
    raise Fatal(f"a batch was refused without a reason: {header}")


def _incomplete(message: str) -> KafkaError:
    """INVALID_RECORD, as Kafka answers a batch that ends early: a retry sends the same bytes."""
    return KafkaError(ErrorCode.invalid_record, f"the batch is incomplete: {message}")


def _refuse_more(rest: memoryview) -> NoReturn:
    """Refuse bytes after a batch. If they cannot be another one, the batch's length is wrong."""
    stated_bytes = int.from_bytes(rest[8:12], "big", signed=True)
    if len(rest) >= LENGTH_OVERHEAD_BYTES and stated_bytes < OLD_BYTES_MIN:
        raise CorruptData(f"{len(rest)} bytes after the batch are not another one")
    if len(rest) > MAGIC_AT and rest[MAGIC_AT] not in (*OLD_MAGICS, MAGIC):
        raise CorruptData(f"{len(rest)} bytes after the batch are not another one")
    raise KafkaError(ErrorCode.invalid_record, "more than one record batch for one partition")


def _check_stated_times(header: BatchHeader, settings: TopicSettings, now_ms: int) -> None:
    """Check the limits of KIP-937 for the timestamps in the header."""
    if settings.log.timestamp_type is _LOG_APPEND_TIME:
        return
    for stated_ms in (header.base_timestamp_ms, header.max_timestamp_ms):
        if message := _time_fault(settings, stated_ms, now_ms):
            raise KafkaError(ErrorCode.invalid_timestamp, message)


def _check_range(
    settings: TopicSettings, header: BatchHeader, body: Body, low_ms: int, high_ms: int, now_ms: int
) -> None:
    """Check the limits of KIP-937 for the smallest and the largest timestamp."""
    if high_ms == NO_TIMESTAMP_MS and low_ms in (NO_TIMESTAMP_MS, LOW_MS):
        return
    if high_ms - now_ms > settings.timestamp_after_max_ms or (
        low_ms != NO_TIMESTAMP_MS and now_ms - low_ms > settings.timestamp_before_max_ms
    ):
        _refuse_records(settings, header, body, now_ms)


def _refuse_records(
    settings: TopicSettings, header: BatchHeader, body: Body, now_ms: int
) -> NoReturn:
    """Name the well-formed records that the topic refuses. Raises RecordsRefusedError."""
    data, start = body
    records = keys_and_times(data, start, header.record_count, header.base_timestamp_ms)
    faults: list[RecordFault] = []
    code = ErrorCode.invalid_record
    for fault_code, fault in _faults(settings, header, islice(records, SCANNED_MAX), now_ms):
        if fault_code is ErrorCode.invalid_timestamp:
            code = fault_code
        if len(faults) < RECORD_ERRORS_MAX:
            faults.append(fault)
    first = f": record {faults[0].index}: {faults[0].message}" if faults else ""
    raise RecordsRefusedError(
        code, f"{header.record_count} records are refused because of some{first}", tuple(faults)
    )


def _faults(
    settings: TopicSettings, header: BatchHeader, records: Iterator[RecordKeys], now_ms: int
) -> Iterator[tuple[ErrorCode, RecordFault]]:
    """Each record that the topic refuses, with its code: no key in a compacted topic, a timestamp
    type that only the broker may set, or a time beyond the limits."""
    stamps_time = settings.log.timestamp_type is _LOG_APPEND_TIME
    says_append_time = header.attributes & TIMESTAMP_TYPE_BIT
    for index, timestamp_ms, has_key in records:
        at_ms = header.max_timestamp_ms if says_append_time else timestamp_ms
        if settings.log.compacts and not has_key:
            yield ErrorCode.invalid_record, RecordFault(index, WHY[Fault.NO_KEY])
        elif says_append_time and (stamps_time or at_ms == NO_TIMESTAMP_MS):
            message = "a producer must not set the timestamp type LogAppendTime"
            yield ErrorCode.invalid_timestamp, RecordFault(index, message)
        elif not stamps_time and (message := _time_fault(settings, at_ms, now_ms)):
            yield ErrorCode.invalid_timestamp, RecordFault(index, message)


def _time_fault(settings: TopicSettings, timestamp_ms: int, now_ms: int) -> str:
    """Why a record's timestamp is refused; empty: it is accepted."""
    if timestamp_ms == NO_TIMESTAMP_MS:
        return ""
    if timestamp_ms - now_ms > settings.timestamp_after_max_ms:
        return (
            f"its timestamp is {timestamp_ms - now_ms} ms ahead of the broker's clock,"
            f" message.timestamp.after.max.ms is {settings.timestamp_after_max_ms}"
        )
    if now_ms - timestamp_ms > settings.timestamp_before_max_ms:
        return (
            f"its timestamp is {now_ms - timestamp_ms} ms before the broker's clock,"
            f" message.timestamp.before.max.ms is {settings.timestamp_before_max_ms}"
        )
    return ""
