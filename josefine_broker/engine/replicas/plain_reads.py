"""The answer to a plain fetch request that finds enough records at once.

Rules: it answers only what `api/fetch.py` would answer, with the same bytes; a request that waits,
has an error, or may have to leave out aborted transactions is left to that path. So nothing is
refused here.
"""

from uuid import UUID

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.replicas.plain_batches import is_open
from josefine_broker.records.crc import Buffer
from josefine_broker.records.plain_fetch import PlainFetch

JOINED_BYTES_MAX = 16 * 1024
"""An answer of this size is copied into one buffer: cheaper than the write of several."""


def fetch_plain(ctx: Context, plain: PlainFetch, frame: memoryview) -> list[Buffer] | None:
    """The whole response; None: nothing was done."""
    request = plain.parse(frame)
    if request is None or not is_open(ctx):
        return None
    (topic_key, index, by_id), _, _, min_bytes, max_bytes, isolation, epoch, offset, size_max = (
        request
    )
    topic = ctx.image.topic_names.get(UUID(bytes=topic_key)) if by_id else topic_key.decode()
    hosted = None if topic is None else ctx.hosted.partitions.get((topic, index))
    if hosted is None or not hosted.partition.is_leader:
        return None
    partition, log = hosted.partition, hosted.log
    transactions, end_offset = partition.producers.transactions, partition.high_watermark
    log_start_offset = log.log_start_offset
    # An error, a wait for records, or a search for aborted transactions.
    if (
        epoch not in (-1, partition.leader_epoch)
        or not log_start_offset <= offset < end_offset
        or (isolation and (transactions.has_aborted or not transactions.are_settled))
    ):
        return None
    bytes_max = min(size_max, max_bytes, ctx.settings.fetch.bytes_max)
    try:
        records = log.read(offset, bytes_max, end_offset=end_offset)
    except KafkaError:
        return None
    size = sum(map(len, records))
    if not size or size < min(min_bytes, max_bytes):
        return None
    hosted.traffic.bytes_out += size
    stable = max(partition.last_stable_offset, log_start_offset)
    before, after = plain.answer(request, end_offset, stable, log_start_offset, size)
    if size <= JOINED_BYTES_MAX:
        return [b"".join((before, *records, after))]
    return [before, *records, after] if after else [before, *records]
