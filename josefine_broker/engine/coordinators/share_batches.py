"""The batches that a fetch of a share group has read: which of them have records for the group, and
which are sent. Headers alone: no record is looked at. Read is little more than what is acquired:
a fetch that waits for its acknowledgements holds what it has read, and may be one of a thousand."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.groups.share.config import ShareConfig
from josefine_broker.engine.groups.share.partition import SharePartition
from josefine_broker.engine.groups.share.spans import joined
from josefine_broker.engine.groups.share.values import Acquired, Found
from josefine_broker.engine.hosted import Buffer, HostedPartition
from josefine_broker.engine.replicas.fetch_follower import read_or_wait
from josefine_broker.records.batch import BatchHeader, iter_batches

__all__ = ["Room", "batches_of", "end_for", "holding", "judged", "read_available"]

PIECE_BYTES = 256 << 10
"""How much is read at first; each further piece is twice as large."""


class Room(NamedTuple):
    """What a member's fetch may still hold, after the partitions that were looked at before."""

    records: int
    bytes_max: int
    is_strict: bool
    at_least_one: bool
    """Whether the first batch is read however large it is (KIP-74)."""


def end_for(hosted: HostedPartition, config: ShareConfig) -> int:
    """As far as the group may read, which is as far as a consumer may."""
    log, partition = hosted.log, hosted.partition
    end = partition.readable_end(-1, log.log_end_offset)
    # A deletion may have moved the log's start past the stable end.
    if config.is_committed_only:
        end = min(end, max(partition.last_stable_offset, log.log_start_offset))
    return end


def batches_of(records: Sequence[Buffer]) -> Iterable[tuple[BatchHeader, memoryview]]:
    """Each batch with its header, as a view of the bytes that were read: nothing is copied."""
    for buffer in records:
        data = memoryview(buffer)
        for pos, header in iter_batches(data):
            yield header, data[pos : pos + header.size_bytes]


def judged(
    hosted: HostedPartition,
    batches: Iterable[tuple[BatchHeader, memoryview]],
    start: int,
    *,
    is_committed_only: bool,
) -> list[Found]:
    """The batches, and which of them have records for the group. A producer's batch is aborted if
    it lies between the first offset of one of its aborted transactions and that one's marker."""
    transactions = hosted.partition.producers.transactions
    headers = [header for header, _ in batches]
    # Empty without `is_committed_only`: then markers alone have no records for the group.
    aborted = []
    if is_committed_only and headers and transactions.has_aborted:
        aborted = transactions.aborted_between(start, headers[-1].end_offset)
    return [
        Found(
            header.base_offset,
            header.end_offset - 1,
            is_data=not header.is_control
            and not (
                header.is_transactional
                and any(
                    each.producer_id == header.producer_id
                    and each.first_offset <= header.base_offset <= each.marker_offset
                    for each in aborted
                )
            ),
        )
        for header in headers
    ]


def holding(
    batches: Iterable[tuple[BatchHeader, memoryview]], acquired: Sequence[Acquired]
) -> list[Buffer]:
    """The batches with acquired records. Others would be sent for nothing."""
    return [
        data
        for header, data in batches
        if any(
            each.first < header.end_offset and header.base_offset <= each.last for each in acquired
        )
    ]


def read_available(
    hosted: HostedPartition,
    shared: SharePartition,
    member_id: str,
    room: Room,
    config: ShareConfig,
    now_ms: int,
) -> tuple[list[Acquired], list[Buffer]]:
    """Acquire records for a member; they, and the batches that hold them. Raises KafkaError, with
    nothing acquired."""
    end, piece, last = end_for(hosted, config), PIECE_BYTES, -1
    left, records_left = room.bytes_max, room.records
    acquired: list[Acquired] = []
    held: list[Buffer] = []
    while records_left > 0:
        at = shared.read_offset
        is_first = room.at_least_one and not acquired
        # Without progress a further piece would be the same again.
        if at is None or at >= end or at == last or (left <= 0 and not is_first):
            break
        try:
            read = read_or_wait(hosted, at, min(piece, left), end, at_least_one=is_first)
        except KafkaError:
            if acquired:
                break  # the next fetch has it; without these records they would be locked
            raise
        size = sum(map(len, read))
        if not size:
            if is_first or piece >= left:
                break
            piece *= 2  # the next batch is larger
            continue
        found = list(batches_of(read))
        got = shared.acquire(
            member_id,
            at,
            judged(hosted, found, at, is_committed_only=config.is_committed_only),
            now_ms,
            records_max=records_left,
            is_strict=room.is_strict,
        )
        acquired += got
        held += holding(found, got)
        records_left -= sum(each.last - each.first + 1 for each in got)
        left, piece, last = left - size, piece * 2, at
    return joined(acquired), held
