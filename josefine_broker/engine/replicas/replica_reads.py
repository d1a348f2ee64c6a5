"""Reads from other replicas that are no replication: of a repair, and of a leader in doubt.

A batch is read by Fetch, without waiting, as a consumer reads it that may see all of a log: every
replica answers, whatever its role is, and the read counts as nobody's progress.
"""

from __future__ import annotations

from collections.abc import Callable

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.partition.fetch_session import FINAL_EPOCH
from josefine_broker.engine.partition.partition import DEBUG_REPLICA_ID
from josefine_broker.records.batch import NO_LEADER_EPOCH, iter_batches
from josefine_broker.records.crc import Buffer
from josefine_broker.wire.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

FETCH = 1
FETCH_BYTES = 1024 * 1024
"""Bytes asked for at once."""
ANSWER_MS = 3_000
"""After this a replica that does not answer counts as silent."""

Resume = Callable[[Context, TopicPartition, HostedPartition], None]
"""Lets a replica take its role that had to wait for something."""

DAMAGED = (ErrorCode.corrupt_message.value, ErrorCode.offset_out_of_range.value)
"""The replica does not have the batch intact. After any other error (it starts, or has lost its
role) it may still have it."""


def request_of(hosted: HostedPartition, index: int, offset: int) -> FetchRequest:
    """Read from `offset`, without a session, and without waiting."""
    part = FetchPartition(index, NO_LEADER_EPOCH, offset, NO_LEADER_EPOCH, -1, FETCH_BYTES)
    return FetchRequest(
        replica_id=DEBUG_REPLICA_ID,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=FETCH_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=FINAL_EPOCH,
        topics=(FetchTopic("", hosted.topic_id, (part,)),),
    )


def is_answered(answer: FetchResponse | None) -> bool:
    """Whether the replica looked for the batch."""
    if answer is None or answer.error_code or not answer.topics:
        return False
    return answer.topics[0].partitions[0].error_code in (0, *DAMAGED)


def records_of(
    answer: FetchResponse | None, wanted: int, *, is_all_of_use: bool
) -> tuple[Buffer, bool]:
    """(its batches, whether it may have them later): it did not answer, or does not know yet that
    the records are committed. Without `is_all_of_use` only committed batches are returned."""
    if answer is None or answer.error_code or not answer.topics:
        return b"", True
    found = answer.topics[0].partitions[0]
    if found.error_code:
        return b"", found.error_code not in DAMAGED
    records = b"".join(found.records or ())
    if not is_all_of_use:
        ends = (
            p + h.size_bytes
            for p, h in iter_batches(memoryview(records))
            if h.end_offset <= found.high_watermark
        )
        records = records[: max(ends, default=0)]
    # No error and no records: below its high watermark the batch is missing there, too.
    return records, found.high_watermark <= wanted


def ends_at(answer: FetchResponse | None, offset: int) -> bool:
    """Whether this answer to a read of the offset after it shows that the log ends there; to a read
    of this offset, that it ends before it."""
    if answer is None or answer.error_code or not answer.topics:
        return False
    found = answer.topics[0].partitions[0]
    is_outside = found.error_code == ErrorCode.offset_out_of_range
    return is_outside and 0 <= found.log_start_offset <= offset


def start_after(answer: FetchResponse | None, offset: int) -> int:
    """Where the replica's log starts, if this answer to a read of that offset shows that its log
    starts after it; else 0."""
    if answer is None or answer.error_code or not answer.topics:
        return 0
    found = answer.topics[0].partitions[0]
    is_outside = found.error_code == ErrorCode.offset_out_of_range
    return found.log_start_offset if is_outside and found.log_start_offset > offset else 0
