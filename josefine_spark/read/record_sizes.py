"""Estimates of record size and age at a stream's position, from samples of its next batches.

The Kafka protocol reports bytes per replica, not per range of offsets. So a few batches from the
position on are fetched and their headers read. The estimate is as good as the first batches are
typical of the later ones. Bytes are stored bytes, compressed. Nothing is decoded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from josefine_broker.base.ids import TopicPartition

if TYPE_CHECKING:
    from josefine_broker.client.io_blocking import BlockingClient

SAMPLE_BYTES = 64 * 1024
"""Bytes fetched per partition; a first batch that is larger comes whole."""
SAMPLES_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of one fetch of all partitions; those without a sample are assumed to be like the rest."""
RECORD_BYTES_GUESS = 1024.0
"""Assumed when there is no sample at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Size and age of the first batches from a position on."""

    offset_bytes: float
    """Stored bytes per offset, including gaps of compaction."""
    timestamp_ms: int
    """Timestamp of the first batch, since 1970: about when the next unread record was written."""


def measure(records: memoryview) -> Sample | None:
    """The sample of these batches; None without a complete batch. Raises CorruptData."""
    from josefine_broker.records.batch import iter_batches

    size = begin = end = timestamp_ms = 0
    for _, header in iter_batches(records):
        if size == 0:
            begin, timestamp_ms = header.base_offset, header.base_timestamp_ms
        size += header.size_bytes
        end = header.end_offset
    if end <= begin:
        return None
    return Sample(offset_bytes=size / (end - begin), timestamp_ms=timestamp_ms)


def look(
    client: "BlockingClient", positions: Mapping[TopicPartition, int], *, read_committed: bool
) -> dict[TopicPartition, Sample]:
    """A sample from each position on, where there are records to read."""
    if not positions:
        return {}
    answers = client.fetch(
        positions,
        bytes_max=SAMPLES_BYTES_MAX,
        partition_bytes_max=SAMPLE_BYTES,
        max_wait_ms=0,
        isolation_level=1 if read_committed else 0,
    )
    samples = {tp: measure(fetched.records) for tp, fetched in answers.items()}
    return {tp: sample for tp, sample in samples.items() if sample is not None}


def offset_bytes(
    samples: Mapping[TopicPartition, Sample], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, float]:
    """Bytes per offset of each partition; where no sample is, the mean of the others."""
    known = [sample.offset_bytes for sample in samples.values()]
    mean = sum(known) / len(known) if known else RECORD_BYTES_GUESS
    return {tp: samples[tp].offset_bytes if tp in samples else mean for tp in partitions}
