"""The append of several plain produce requests to one partition: by one write, with one step of the
high watermark and one wake-up of waiting fetches.

Rules: it appends all of the requests or none. It appends only what `api/produce.py` would append
with the same bytes and the same answers; anything that it does not know leaves the requests to that
path, which has the error codes. So nothing is refused here.
"""

from uuid import UUID

from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import INTERNAL_TOPICS
from josefine_broker.engine.metadata.log_config import TimestampType
from josefine_broker.records.plain_produce import Key, PlainProduce, PlainRequest, Survey

_CREATE_TIME = TimestampType.CREATE_TIME


def is_open(ctx: Context) -> bool:
    """Whether requests may be served without their client's name: no access control, no quota."""
    return ctx.clients.authorizer is None and not ctx.image.quotas


def append_plain(
    ctx: Context, plain: PlainProduce, key: Key, requests: list[PlainRequest]
) -> list[bytes] | None:
    """The answers, in order; None: nothing was appended."""
    topic_key, index, by_id = key
    # By id since Produce 13 (KIP-516).
    topic = ctx.image.topic_names.get(UUID(bytes=topic_key)) if by_id else topic_key.decode()
    if topic is None or topic in INTERNAL_TOPICS or ctx.storage.is_full:
        return None
    tp = (topic, index)
    hosted = ctx.hosted.partitions.get(tp)
    # A batch must not overtake an earlier one of its partition that is still being validated.
    if hosted is None or tp in ctx.clients.validations.partitions:
        return None
    found = plain.survey(requests)
    now_ms = ctx.clock.now_ms()
    if not _takes(hosted, found) or not _fits(hosted, requests, found, now_ms):
        return None
    records, size_bytes, _, _, _, acks_all = found
    partition, log = hosted.partition, hosted.log
    base_offset = log.append_plain(requests, size_bytes, partition.leader_epoch, now_ms)
    if base_offset is None:
        return None
    end_offset = base_offset + records
    partition.appended_together(end_offset, size_bytes, log.durable_end_offset)
    # The answers go out at once, without a wait for replicas.
    assert not acks_all or partition.high_watermark >= end_offset, "acknowledged, not committed"
    traffic = hosted.traffic
    traffic.batches_in += len(requests)
    traffic.records_in += records
    traffic.bytes_in += size_bytes
    ctx.parked.wake(tp, ctx.clock.monotonic_ms())
    return plain.answers(requests, base_offset, log.log_start_offset)


def _takes(hosted: HostedPartition, found: Survey) -> bool:
    """Whether the partition stores batches as they come, and answers them at once."""
    partition, config = hosted.partition, hosted.settings.log
    if not partition.is_leader or not partition.is_alone:
        return False
    # acks=all is answered after a sync, or refused, only by the general path.
    if found[5] and (
        partition.is_stranded or partition.is_under_min_isr or config.flush_messages is not None
    ):
        return False
    return (
        config.compression is None
        and config.validates_records
        and config.timestamp_type is _CREATE_TIME
        and not (found[4] and "compact" in config.cleanup_policy)
    )


def _fits(
    hosted: HostedPartition, requests: list[PlainRequest], found: Survey, now_ms: int
) -> bool:
    """Whether every batch is within the topic's limits of size and time (KIP-937)."""
    settings = hosted.settings
    _, size_bytes, low_ms, high_ms, _, _ = found
    bytes_max = settings.log.message_bytes_max
    if size_bytes > bytes_max and max(request[6] for request in requests) > bytes_max:
        return False
    return (
        high_ms - now_ms <= settings.timestamp_after_max_ms
        and now_ms - low_ms <= settings.timestamp_before_max_ms
    )
