"""The batches that a fetch of a share group has read: which of them have records for the group, and
which are sent. Headers alone: no record is looked at."""

from collections.abc import Iterable, Sequence

from josefine_broker.engine.groups.share.config import ShareConfig
from josefine_broker.engine.groups.share.values import Acquired, Found
from josefine_broker.engine.hosted import Buffer, HostedPartition
from josefine_broker.records.batch import BatchHeader, iter_batches

__all__ = ["batches_of", "end_for", "holding", "judged"]


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
