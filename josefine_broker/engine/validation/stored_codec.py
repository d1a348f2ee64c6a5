"""Recompression of validated batches to their topic's `compression.type`.

Rules: only a batch with another codec is changed, after it was validated as sent, on the thread
that validated it; small uncompressed batches may be recompressed on the event loop. The size limit
applies to the batch as sent and as stored, as in Kafka.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.validation.produced_batch import Validated, validate_batch
from josefine_broker.records.batch import COMPRESSION_MASK, CRC_START, HEADER_BYTES, parse_header
from josefine_broker.records.body import PRODUCED_BYTES_MAX
from josefine_broker.records.codecs import Compression
from josefine_broker.records.recompression import in_codec

LOOP_BYTES_MAX = 16 * 1024
"""A larger batch is recompressed on a thread: gzip takes 3 ms for this, the others a tenth."""
_CODEC_AT = CRC_START + 1


def validate_for_storage(
    settings: TopicSettings,
    batch: memoryview,
    now_ms: int,
    *,
    is_built: bool = False,
    room: memoryview | None = None,
    is_loop: bool = False,
) -> Validated | None:
    """Validate as `validate_batch`, and convert to the topic's codec. Raises KafkaError and
    CorruptData."""
    log_config = settings.log
    if log_config.compression is None:
        return validate_batch(
            settings, batch, now_ms, is_built=is_built, room=room, is_loop=is_loop
        )
    if is_loop and _takes_long(batch, log_config.compression):
        return None
    validated = validate_batch(
        settings, batch, now_ms, is_built=is_built, room=room, is_loop=is_loop
    )
    if validated is None or validated.header.compression == log_config.compression:
        return validated
    return _recompressed(log_config, log_config.compression, validated)


def _takes_long(batch: memoryview, wanted: Compression) -> bool:
    """Whether recompression is too slow for the loop; compressed batches have an unknown size."""
    if len(batch) < HEADER_BYTES:
        return False
    codec = batch[_CODEC_AT] & COMPRESSION_MASK
    return codec != wanted and (codec != Compression.NONE or len(batch) > LOOP_BYTES_MAX)


def _recompressed(config: LogConfig, codec: Compression, validated: Validated) -> Validated:
    """The batch in another codec. Raises KafkaError(message_too_large), CorruptData."""
    level = config.compression_level
    found = in_codec(*validated, codec, level, bytes_max=PRODUCED_BYTES_MAX)
    # Also what shrank on its way here may be larger in another codec; consumers rely on the limit.
    if len(found) > config.message_bytes_max:
        raise KafkaError(
            ErrorCode.message_too_large,
            f"a batch of {len(found)} bytes as {codec.name.lower()},"
            f" max.message.bytes is {config.message_bytes_max}",
        )
    return Validated(memoryview(found), parse_header(found))
