"""Bounds that more than one layer keeps and that are not configuration, with unit and reason.

A bound of one module alone stands in that module.
"""

FRAME_BYTES_MAX = 100 * 1024 * 1024
"""Kafka's default `socket.request.max.bytes`: a longer frame is garbage or an attack."""

CONNECTION_IN_FLIGHT_MAX = 32
"""Requests of one connection being worked on; past that the connection stops reading."""

TOPIC_NAME_CHARS_MAX = 249
"""Kafka's rule: a directory name `topic-partition` must fit a file system's 255 bytes."""

PARTITIONS_PER_TOPIC_MAX = 10_000
"""What a client of a topic must be told of at once stays within a megabyte or two."""

PARTITIONS_PER_BROKER_MAX = 25_000
"""Default of `broker.partitions_max`: 20,000 are measured (`bench scale`), 5 KB of memory each."""

DECOMPRESSED_BYTES_MAX = 512 * 1024 * 1024
"""Records of one batch, decompressed: five times the largest frame; a bomb must not fill memory."""

LOOKUP_BYTES_MAX = 64 * 1024 * 1024
"""Records of one batch, decompressed by the broker to find a timestamp: 64 times Kafka's default of
the largest batch, a quarter of a second of a worker's time. One that is larger is refused."""

DISK_FREE_BYTES_MIN = 64 * 1024 * 1024
"""Default of `broker.disk_free_bytes_min`: room for the metadata and indexes to be written."""
