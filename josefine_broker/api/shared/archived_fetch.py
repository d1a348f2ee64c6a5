"""The part of Fetch that reads below the local log start of archived topics."""

from collections.abc import Sequence

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import Buffer, HostedPartition
from josefine_broker.engine.partition.fetch_session import FetchPlan
from josefine_broker.engine.purgatory.purgatory import PartitionKey
from josefine_broker.wire.fetch import FetchPartition, FetchPartitionResponse


def is_below(ctx: Context, hosted: HostedPartition, part: FetchPartition) -> bool:
    """Whether the offset is below the local start, where only the archive has records."""
    is_below = 0 <= part.fetch_offset < hosted.log.log_start_offset
    return is_below and hosted.settings.log.archived


def read(
    ctx: Context, hosted: HostedPartition, part: FetchPartition, room: int, at_least_one: bool
) -> tuple[FetchPartitionResponse | None, int, FetchPartition]:
    """One partition's answer from its archive and its bytes, none before the records have come.
    Without an answer the reader is to continue in the log, at the offset of the returned
    partition. Raises KafkaError."""
    partition, start = hosted.partition, hosted.log.log_start_offset
    tp = TopicPartition(ctx.image.topic_names[hosted.topic_id], part.index)
    if ctx.ports.archive is None:
        # Out of range would make a consumer skip records that the archive has.
        raise ctx.ports.no_archive(tp)
    bytes_max = min(part.max_bytes, room)
    records: Sequence[Buffer] | None = None
    if at_least_one or bytes_max > 0:
        records = ctx.ports.archive.read(tp, hosted, part.fetch_offset, bytes_max)
    if records is not None and not records:
        # No archived record is left below the local start.
        return None, 0, part._replace(fetch_offset=start)
    # The archive has committed records only, so nothing of them was aborted.
    stable = max(partition.last_stable_offset, start)
    answer = FetchPartitionResponse(
        part.index, 0, partition.high_watermark, stable, start, (), -1, records or ()
    )
    return answer, sum(map(len, records or ())), part


def has_news(ctx: Context, plan: FetchPlan, key: PartitionKey, hosted: HostedPartition) -> bool:
    """Whether records of an archive have come for a partition of a waiting fetch."""
    archive = ctx.ports.archive
    if archive is None or not hosted.settings.log.archived:
        return False
    return any(
        archive.has_news(TopicPartition(*key), hosted, part.fetch_offset)
        for name, topic_id, part in plan.wanted
        if part.index == key[1]
        and ctx.topic_name(name, topic_id) == key[0]
        and is_below(ctx, hosted, part)
    )
