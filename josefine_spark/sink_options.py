"""The options of a write, batch or streaming, from their text: types, defaults, contradictions.

Pure. Raises OptionError with one sentence that names the option.
"""

from collections.abc import Mapping

from josefine_spark.errors import OptionError
from josefine_spark.kafka_options import REFUSED
from josefine_spark.option_text import OptionTable, OptionText
from josefine_spark.options import (
    BATCH_BYTES,
    CONNECTION_OPTIONS,
    Delivery,
    SinkOptions,
    connection,
)

SINK_OPTIONS = (
    *CONNECTION_OPTIONS,
    "topic",
    "includeHeaders",
    "delivery",
    "kafka.acks",
    "kafka.batch.size",
    "kafka.compression.type",
    "checkpointLocation",
)
TABLE = OptionTable(
    known=SINK_OPTIONS,
    refused={
        **REFUSED,
        "kafka.group.id": "a write joins no group",
        "groupIdPrefix": "a write joins no group",
    },
)

COMPRESSIONS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Check and type the options of `writeStream` or `write`. Raises OptionError."""
    options = OptionText(given, TABLE)
    if options.text("delivery", "").lower() == "exactly_once":
        raise OptionError(
            "delivery=exactly_once is not built yet: use at_least_once, or write to a Delta table"
        )
    acks = options.text("kafka.acks", "all")
    if acks not in ("all", "-1", "1"):
        raise OptionError(f"kafka.acks: expected all or 1, got {acks!r}")
    compression = options.text("kafka.compression.type", "none").lower()
    if compression not in COMPRESSIONS:
        raise OptionError(
            f"kafka.compression.type: expected one of {', '.join(COMPRESSIONS)}, "
            f"got {compression!r}"
        )
    return SinkOptions(
        connection=connection(options),
        topic=options.text("topic", "") or None,
        include_headers=options.boolean("includeHeaders", True),
        delivery=options.choice("delivery", Delivery.AT_LEAST_ONCE),
        acks=1 if acks == "1" else -1,
        batch_bytes=options.integer("kafka.batch.size", 1024) or BATCH_BYTES,
        compression=COMPRESSIONS[compression],
    )
