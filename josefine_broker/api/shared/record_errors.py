"""Which records made the broker refuse a batch for its timestamps (KIP-467): produce's answer names
each with its place in the batch, so that a producer can leave it out and send the others.
"""

from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.records.batch import NO_TIMESTAMP_MS, parse_header
from josefine_broker.records.crc import Buffer
from josefine_broker.records.reader import read_records
from josefine_broker.wire.produce import RecordError

RECORDS_MAX = 10_000
BYTES_MAX = 1024 * 1024
"""Of a batch that is looked through, on the broker's thread: of a larger one no record is named."""


def timestamp_errors(
    batch: Buffer, settings: TopicSettings, now_ms: int
) -> tuple[RecordError, ...]:
    """The records of a sound batch whose timestamps are out of the topic's bounds."""
    if parse_header(batch).record_count > RECORDS_MAX:
        return ()
    oldest_ms = now_ms - settings.timestamp_before_max_ms
    newest_ms = now_ms + settings.timestamp_after_max_ms
    try:
        records = list(read_records(batch, bytes_max=BYTES_MAX))
    except CorruptData:
        return ()
    return tuple(
        RecordError(
            at,
            f"timestamp {each.timestamp_ms} is out of range: from {oldest_ms} to {newest_ms}",
        )
        for at, each in enumerate(records)
        if each.timestamp_ms != NO_TIMESTAMP_MS and not oldest_ms <= each.timestamp_ms <= newest_ms
    )
