"""The options of a write, batch or streaming: parsing, defaults and checks for contradictions.

Pure. Raises OptionError with one sentence that names the option.
"""

from collections.abc import Mapping

from josefine_spark.base.errors import OptionError
from josefine_spark.options.kafka_options import IGNORED_BY_SINK, REFUSED, REFUSED_BY_SINK
from josefine_spark.options.options import (
    BATCH_BYTES,
    CONNECTION_OPTIONS,
    DELIVERY_TIMEOUT_MS,
    MAX_BLOCK_MS,
    TRANSACTION_TIMEOUT_MS,
    Delivery,
    NumberedBatch,
    SinkOptions,
    connection,
)
from josefine_spark.options.parse import OptionTable, OptionText
from josefine_spark.write.state import SINK_ID

TWO_PHASE = "kafka.transaction.two.phase.commit.enable"
SINK_OPTIONS = (
    *CONNECTION_OPTIONS,
    "topic",
    "includeHeaders",
    "delivery",
    "deliveryLog",
    "kafka.acks",
    "kafka.batch.size",
    "kafka.compression.type",
    "kafka.delivery.timeout.ms",
    "kafka.enable.idempotence",
    "kafka.max.block.ms",
    "kafka.partitioner.ignore.keys",
    "kafka.transaction.timeout.ms",
    TWO_PHASE,
    "sinkId",
    "batchId",
    "batchFingerprint",
    "batchNote",
    "checkpointLocation",
)
TABLE = OptionTable(
    known=SINK_OPTIONS,
    refused={**REFUSED, **REFUSED_BY_SINK},
    ignored=IGNORED_BY_SINK,
)

COMPRESSIONS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Check and type the options of `writeStream` or `write`. Raises OptionError."""
    options = OptionText(given, TABLE)
    acks = options.text("kafka.acks", "all").lower()
    if acks not in ("all", "-1", "1"):
        raise OptionError(f"kafka.acks: expected all or 1, got {acks!r}")
    compression = options.text("kafka.compression.type", "none").lower()
    if compression not in COMPRESSIONS:
        raise OptionError(
            f"kafka.compression.type: expected one of {', '.join(COMPRESSIONS)}, "
            f"got {compression!r}"
        )
    delivery = options.choice("delivery", Delivery.AT_LEAST_ONCE)
    # Before the values are used: a contradiction must fail, not be resolved silently.
    idempotent = _is_idempotent(options, acks)
    _check_exactly_once(options, delivery, idempotent)
    return SinkOptions(
        connection=connection(options),
        topic=options.text("topic", "") or None,
        include_headers=options.boolean("includeHeaders", True),
        delivery=delivery,
        delivery_log=options.text("deliveryLog", "") or None,
        acks=1 if acks == "1" else -1,
        idempotent=idempotent,
        sink_id=options.text("sinkId", "") or None,
        checkpoint=options.text("checkpointLocation", "") or None,
        batch=_batch(options, delivery),
        transaction_timeout_ms=options.integer("kafka.transaction.timeout.ms", 1_000)
        or TRANSACTION_TIMEOUT_MS,
        two_phase=options.boolean(TWO_PHASE, False) if options.has(TWO_PHASE) else None,
        hash_keys=not options.boolean("kafka.partitioner.ignore.keys", False),
        batch_bytes=options.integer("kafka.batch.size", 1024) or BATCH_BYTES,
        compression=COMPRESSIONS[compression],
        delivery_timeout_ms=options.integer("kafka.delivery.timeout.ms", 1) or DELIVERY_TIMEOUT_MS,
        max_block_ms=options.integer("kafka.max.block.ms", 1) or MAX_BLOCK_MS,
        without_effect=tuple(options.without_effect),
    )


def _check_exactly_once(options: OptionText, delivery: Delivery, idempotent: bool) -> None:
    if delivery is Delivery.EXACTLY_ONCE:
        if not idempotent:
            raise OptionError(
                "delivery=exactly_once needs kafka.acks=all and kafka.enable.idempotence=true"
            )
        sink_id = options.text("sinkId", "")
        if sink_id and SINK_ID.fullmatch(sink_id) is None:
            raise OptionError(f"sinkId: expected 1 to 150 of a-z A-Z 0-9 . _ -, got {sink_id!r}")
        return
    if options.has("sinkId"):
        raise OptionError("sinkId is for delivery=exactly_once")
    for name in ("kafka.transaction.timeout.ms", TWO_PHASE):
        if options.has(name):
            options.without_effect.append(f"{name} (delivery is at_least_once)")


def _batch(options: OptionText, delivery: Delivery) -> NumberedBatch | None:
    if not options.has("batchId"):
        for name in ("batchFingerprint", "batchNote"):
            if options.has(name):
                raise OptionError(f"{name} is for a write with batchId")
        return None
    if delivery is not Delivery.EXACTLY_ONCE:
        raise OptionError("batchId is for delivery=exactly_once")
    if not options.text("sinkId", ""):
        raise OptionError("batchId needs sinkId: it numbers the batches of that sink")
    return NumberedBatch(
        number=options.integer("batchId", 0) or 0,
        fingerprint=options.text("batchFingerprint", ""),
        note=options.text("batchNote", ""),
    )


def _is_idempotent(options: OptionText, acks: str) -> bool:
    """As in Kafka's producer: on by default, off if `acks` excludes it and it was not set."""
    wanted = options.boolean("kafka.enable.idempotence", acks != "1")
    if wanted and acks == "1":
        raise OptionError("kafka.enable.idempotence=true needs kafka.acks=all")
    return wanted
