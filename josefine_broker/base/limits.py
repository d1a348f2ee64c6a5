"""Limits used by several modules, with unit and reason. A limit of one module is defined there."""

FRAME_BYTES_MAX = 100 * 1024 * 1024
"""Kafka's default `socket.request.max.bytes`: a longer frame is garbage or an attack."""

PARTITIONS_PER_BROKER_MAX = 25_000
"""Default of `broker.partitions_max`: 20,000 are measured (`bench scale`), 5 KB of memory each."""

DECOMPRESSED_BYTES_MAX = 512 * 1024 * 1024
"""Records of one batch, decompressed: five times the largest frame; a bomb must not fill memory."""
