"""Tables of options of Kafka's clients and of Spark's Kafka source that have no effect here or are
refused.

Ignored options are accepted, so that an existing job can be moved without changes, and one log line
names them with the reasons. Names are those of Kafka's ConsumerConfig and of Spark's documentation.
"""

from collections.abc import Iterable

_NO_GROUP = "this source joins no group"
_ONE_PARTITION = "a task fetches one partition, up to kafka.fetch.max.bytes"
_DEADLINE = "transient errors are retried until kafka.request.timeout.ms"
_NO_JAVA = "there are no Java classes here"
_PLAINTEXT = "kafka.security.protocol is PLAINTEXT, which needs none"
_OWN_SOCKETS = "connections are the connector's own"
_METADATA = "metadata is requested before each batch"

_IGNORED_BY_BOTH = {
    "kafka.receive.buffer.bytes": _OWN_SOCKETS,
    "kafka.send.buffer.bytes": _OWN_SOCKETS,
    "kafka.connections.max.idle.ms": _OWN_SOCKETS,
    "kafka.socket.connection.setup.timeout.ms": _OWN_SOCKETS,
    "kafka.socket.connection.setup.timeout.max.ms": _OWN_SOCKETS,
    "kafka.client.dns.lookup": _OWN_SOCKETS,
    "kafka.auto.include.jmx.reporter": _NO_JAVA,
    "kafka.enable.metrics.push": _NO_JAVA,
    "kafka.metric.reporters": _NO_JAVA,
    "kafka.metrics.*": _NO_JAVA,
    "kafka.security.providers": _NO_JAVA,
    "kafka.ssl.*": _PLAINTEXT,
    "kafka.sasl.*": _PLAINTEXT,
}
"""Option → why it has no effect on a read or a write."""

IGNORED_BY_SOURCE = {
    "fetchOffset.numRetries": _DEADLINE,
    "fetchOffset.retryIntervalMs": _DEADLINE,
    "groupIdPrefix": _NO_GROUP,
    "kafka.group.id": _NO_GROUP,
    "kafka.group.instance.id": _NO_GROUP,
    "kafka.group.protocol": _NO_GROUP,
    "kafka.group.remote.assignor": _NO_GROUP,
    "kafka.heartbeat.interval.ms": _NO_GROUP,
    "kafka.session.timeout.ms": _NO_GROUP,
    "kafka.max.poll.interval.ms": _NO_GROUP,
    "kafka.partition.assignment.strategy": _NO_GROUP,
    "kafka.auto.commit.interval.ms": _NO_GROUP,
    "kafka.fetch.min.bytes": _ONE_PARTITION,
    "kafka.max.partition.fetch.bytes": _ONE_PARTITION,
    "kafka.max.poll.records": _ONE_PARTITION,
    "kafka.default.api.timeout.ms": _DEADLINE,
    "kafka.retries": _DEADLINE,
    "kafka.retry.backoff.ms": _DEADLINE,
    "kafka.retry.backoff.max.ms": _DEADLINE,
    "kafka.reconnect.backoff.ms": _DEADLINE,
    "kafka.reconnect.backoff.max.ms": _DEADLINE,
    "kafka.metadata.max.age.ms": _METADATA,
    "kafka.metadata.recovery.strategy": _METADATA,
    "kafka.metadata.recovery.rebootstrap.trigger.ms": _METADATA,
    "kafka.allow.auto.create.topics": "reading creates no topic",
    "kafka.exclude.internal.topics": "a pattern never matches an internal topic",
    **_IGNORED_BY_BOTH,
}
"""Option → why it has no effect on a read."""

SETTINGS_IGNORED = {
    "spark.kafka.clusters.": "delegation tokens are not requested: set kafka.security.protocol and "
    "kafka.sasl.* on each read and write",
}
"""Prefix of a session's setting for Spark's Kafka connector → why it has no effect."""


def settings_without_effect(names: Iterable[str]) -> list[str]:
    """One clause for each setting of a session that has no effect here, never with its value."""
    return [
        f"{name} ({why})"
        for name in sorted(names)
        for beginning, why in SETTINGS_IGNORED.items()
        if name.startswith(beginning)
    ]


_FULL_BATCHES = "a batch is sent when it is full or its task ends"
_DELIVERY = "transient errors are retried until kafka.delivery.timeout.ms"
_LEVEL = "levels are fixed"
_LEADERS = "metadata is requested when a leader has moved"
_TURNS = "rows without a key are spread evenly over the partitions"

IGNORED_BY_SINK = {
    "kafka.buffer.memory": "a task buffers only a few MiB",
    "kafka.compression.gzip.level": _LEVEL,
    "kafka.compression.lz4.level": _LEVEL,
    "kafka.compression.zstd.level": _LEVEL,
    "kafka.linger.ms": _FULL_BATCHES,
    "kafka.max.in.flight.requests.per.connection": "a task has one request in flight",
    "kafka.max.request.size": "a record may be as large as its topic allows",
    "kafka.retries": _DELIVERY,
    "kafka.retry.backoff.ms": _DELIVERY,
    "kafka.retry.backoff.max.ms": _DELIVERY,
    "kafka.reconnect.backoff.ms": _DELIVERY,
    "kafka.reconnect.backoff.max.ms": _DELIVERY,
    "kafka.partitioner.adaptive.partitioning.enable": _TURNS,
    "kafka.partitioner.availability.timeout.ms": _TURNS,
    "kafka.metadata.max.age.ms": _LEADERS,
    "kafka.metadata.max.idle.ms": _LEADERS,
    "kafka.metadata.recovery.strategy": _LEADERS,
    "kafka.metadata.recovery.rebootstrap.trigger.ms": _LEADERS,
    **_IGNORED_BY_BOTH,
}
"""Option → why it has no effect on a write."""

REFUSED_BY_SINK = {
    "kafka.partitioner.class": f"{_NO_JAVA}: the hash of its key selects a row's partition, as in "
    "Kafka's own partitioner, or the column partition does",
    "kafka.transactional.id": "delivery=exactly_once names transactions after sinkId",
    "kafka.group.id": "a write joins no group",
    "groupIdPrefix": "a write joins no group",
    "subscribe": "that is for reading; name the topic with the option or the column topic",
    "subscribePattern": "that is for reading; name the topic with the option or the column topic",
    "assign": "that is for reading; name the topic with the option or the column topic",
}
"""Option → what to do instead."""

REFUSED = {
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.enable.auto.commit": "this source keeps its offsets in the checkpoint",
    "kafka.key.deserializer": "keys are bytes; decode them with DataFrame operations",
    "kafka.value.deserializer": "values are bytes; decode them with DataFrame operations",
    "kafka.key.serializer": "keys are strings or bytes; encode them with DataFrame operations",
    "kafka.value.serializer": "values are strings or bytes; encode them with DataFrame operations",
    "kafka.interceptor.classes": "there are no Java classes here to intercept",
    "path": "name topics with subscribe, subscribePattern, assign or (writing) topic",
}
"""Option → what to do instead; Spark's Kafka source refuses those with `kafka.` too."""
