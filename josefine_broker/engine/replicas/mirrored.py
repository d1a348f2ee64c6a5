"""The append of a mirror's batches to the leader's log, at the offsets of the source.

Rules:
- only the session that the topic names may append (`josefine.mirror.session`); it is the
  transactional id of the request, so a client needs WRITE on it as well as on the topic;
- a batch must start where the log ends. One that is here already is compared: the same bytes are an
  answer that was lost, other bytes are another history, and are refused. So nothing is stored
  twice, and no gap is made: what the source's compaction removed comes as batches without records;
- offsets, timestamps, producers and control batches stay as they are. The leader epoch is ours. It
  lies outside of the checksum, and a source's epoch would make followers diverge;
- every batch is verified before the first one is written. As a follower does, it opens no records:
  the source has validated them.
"""

from typing import NamedTuple

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.replicas.batches import MIRROR_IS_READ_ONLY
from josefine_broker.engine.replicas.leading import appended_to_many
from josefine_broker.engine.replicas.limited import note_limit
from josefine_broker.records.batch import (
    COMPRESSION_MAX,
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    iter_batches,
    parse_header,
    stamp,
    verify,
)
from josefine_broker.records.control import Marker, read_marker

SESSION_PREFIX = "josefine-mirror:"
"""Of the transactional id with which a mirror's session appends."""
_EPOCH_END = LENGTH_OVERHEAD_BYTES + 4
"""The leader epoch is between the length and this byte of a batch."""


class _New(NamedTuple):
    """A verified batch that is not in the log yet."""

    start: int
    header: BatchHeader
    marker: Marker | None


def is_of_mirror(hosted: HostedPartition, transactional_id: str | None) -> bool:
    """Whether a request is a mirror's, or for a topic that only a mirror writes. A mirror that was
    cut over meanwhile must not be taken for a producer: its batches would get new offsets."""
    if hosted.settings.mirror_session:
        return True
    return transactional_id is not None and transactional_id.startswith(SESSION_PREFIX)


def check_session(hosted: HostedPartition, transactional_id: str | None) -> None:
    """Raises KafkaError(policy_violation) unless this is the topic's current mirror session."""
    session = hosted.settings.mirror_session
    if session and transactional_id == SESSION_PREFIX + session:
        return
    if transactional_id is not None and transactional_id.startswith(SESSION_PREFIX):
        raise KafkaError(
            ErrorCode.policy_violation,
            "this session no longer mirrors the topic: another one does, or it was cut over",
        )
    raise KafkaError(ErrorCode.policy_violation, MIRROR_IS_READ_ONLY)


def append_mirrored(
    ctx: Context,
    tp: tuple[str, int],
    hosted: HostedPartition,
    records: memoryview,
    acks: int,
    now_ms: int,
) -> tuple[int, int]:
    """Store the batches that are not here yet: the offset of the first one in the request, and the
    offset after the last one. Raises KafkaError and CorruptData; then nothing was stored, or the
    batches before one that the disk refused."""
    if ctx.storage.is_full:
        raise KafkaError(ErrorCode.kafka_storage_error, ctx.storage.trouble)
    hosted.partition.check_takes(acks)
    first, end_offset, new = _survey(hosted, records)
    if new:
        _append(ctx, tp, hosted, records, new, now_ms)
    return first, end_offset


def _survey(hosted: HostedPartition, records: memoryview) -> tuple[int, int, list[_New]]:
    """Base and end offset, and the verified batches to store. Raises KafkaError, CorruptData."""
    end = hosted.log.log_end_offset
    first, position, new = -1, 0, []
    for start, header in iter_batches(records):
        size = header.size_bytes
        batch = records[start : start + size]
        verify(records, start, header)
        if header.compression > COMPRESSION_MAX:
            code = ErrorCode.unsupported_compression_type
            raise KafkaError(code, f"compression codec {header.compression}")
        if first < 0:
            first = header.base_offset
        if header.base_offset == end:
            new.append(_New(start, header, read_marker(batch) if header.is_control else None))
            end = header.end_offset
        elif header.last_offset < end and not new:
            _check_same(hosted, header, batch)
        else:
            raise KafkaError(
                ErrorCode.invalid_record,
                f"the batch with offsets {header.base_offset} to {header.last_offset} does not "
                f"continue the log, which ends at offset {end}",
            )
        position = start + size
    if first < 0 or position != len(records):
        raise CorruptData(f"{len(records)} bytes, of which {position} are whole batches")
    return first, max(end if new else header.end_offset, first), new


def _check_same(hosted: HostedPartition, header: BatchHeader, batch: memoryview) -> None:
    """Raises KafkaError unless the log has this batch, but for its leader epoch. What retention has
    deleted since cannot be compared."""
    log = hosted.log
    if header.end_offset <= log.log_start_offset:
        return
    offset = max(header.base_offset, log.log_start_offset)
    found = log.read(offset, len(batch), end_offset=log.log_end_offset)
    stored = memoryview(found[0])[: len(batch)] if found else memoryview(b"")
    if (
        stored[:LENGTH_OVERHEAD_BYTES] == batch[:LENGTH_OVERHEAD_BYTES]
        and stored[_EPOCH_END:] == batch[_EPOCH_END:]
    ):
        return
    raise KafkaError(
        ErrorCode.invalid_record,
        f"the log has another batch at offset {header.base_offset}: its source has another history",
    )


def _append(
    ctx: Context,
    tp: tuple[str, int],
    hosted: HostedPartition,
    records: memoryview,
    new: list[_New],
    now_ms: int,
) -> None:
    """Stamp and write verified batches that continue the log. Raises KafkaError."""
    partition, log, traffic = hosted.partition, hosted.log, hosted.traffic
    base_offset = log.log_end_offset
    for start, header, _ in new:
        stamp(records, start, header.base_offset, partition.leader_epoch)
    data = records[new[0].start :]
    headers = [parse_header(records, start) for start, _, _ in new]
    # One write for all, as a follower does; where a roll or a sync is due, one by one.
    try:
        is_written = len(new) > 1 and log.append_copies(data, headers, now_ms)
        for header, (start, _, marker) in zip(headers, new, strict=True):
            if not is_written:
                log.append(records[start : start + header.size_bytes], header, now_ms)
            durable_end = log.durable_end_offset
            partition.appended(header, header.base_offset, now_ms, marker, durable_end)
            traffic.batches_in += 1
            traffic.records_in += header.record_count
            traffic.bytes_in += header.size_bytes
    except KafkaError as error:
        note_limit(ctx, tp, hosted, error)
        raise
    finally:
        if log.log_end_offset > base_offset:
            if partition.is_alone:
                ctx.parked.wake(tp, ctx.clock.monotonic_ms())
            else:
                appended_to_many(ctx, tp, hosted, base_offset)
