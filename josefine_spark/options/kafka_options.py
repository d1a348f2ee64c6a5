"""Options of Kafka's clients and of Spark's Kafka source that jobs bring along: literal tables.

What a Java consumer would do with them and nothing here does: they are taken, so that a job can be
moved over as it is, and one log line says which have no effect and why. Names are those of Kafka's
ConsumerConfig and of Spark's documentation.
"""

from collections.abc import Iterable

_NO_GROUP = "this source joins no group"
_ONE_PARTITION = "a task fetches one partition, up to kafka.fetch.max.bytes"
_DEADLINE = "what fails in passing is tried again until kafka.request.timeout.ms is over"
_NO_JAVA = "there are no Java classes here"
_PLAINTEXT = "kafka.security.protocol is PLAINTEXT, which needs none"
_OWN_SOCKETS = "connections are the connector's own"
_METADATA = "topics are looked at before each batch"

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
    "kafka.receive.buffer.bytes": _OWN_SOCKETS,
    "kafka.send.buffer.bytes": _OWN_SOCKETS,
    "kafka.connections.max.idle.ms": _OWN_SOCKETS,
    "kafka.socket.connection.setup.timeout.ms": _OWN_SOCKETS,
    "kafka.socket.connection.setup.timeout.max.ms": _OWN_SOCKETS,
    "kafka.client.dns.lookup": _OWN_SOCKETS,
    "kafka.metadata.max.age.ms": _METADATA,
    "kafka.metadata.recovery.strategy": _METADATA,
    "kafka.metadata.recovery.rebootstrap.trigger.ms": _METADATA,
    "kafka.allow.auto.create.topics": "reading creates no topic",
    "kafka.exclude.internal.topics": "a pattern never means an internal topic",
    "kafka.auto.include.jmx.reporter": _NO_JAVA,
    "kafka.enable.metrics.push": _NO_JAVA,
    "kafka.metric.reporters": _NO_JAVA,
    "kafka.metrics.*": _NO_JAVA,
    "kafka.security.providers": _NO_JAVA,
    "kafka.ssl.*": _PLAINTEXT,
    "kafka.sasl.*": _PLAINTEXT,
}
"""Option → why it has no effect on a read."""

SETTINGS_IGNORED = {
    "spark.kafka.clusters.": "delegation tokens are not asked for: give each read and write "
    "kafka.security.protocol and kafka.sasl.*",
}
"""Beginning of a setting of the session, for Spark's Kafka connector → why it has no effect."""


def settings_without_effect(names: Iterable[str]) -> list[str]:
    """One clause for each setting of a session that does nothing here; never its value."""
    return [
        f"{name} ({why})"
        for name in sorted(names)
        for beginning, why in SETTINGS_IGNORED.items()
        if name.startswith(beginning)
    ]


_FULL_BATCHES = "a batch is sent when it is full or its task ends"
_DELIVERY = "what fails in passing is tried again until kafka.delivery.timeout.ms is over"
_LEVEL = "levels are fixed"
_LEADERS = "metadata are asked for when a leader has moved"
_TURNS = "rows without a key take turns evenly"

IGNORED_BY_SINK = {
    "kafka.buffer.memory": "a task holds a few MiB that are not sent yet",
    "kafka.compression.gzip.level": _LEVEL,
    "kafka.compression.lz4.level": _LEVEL,
    "kafka.compression.zstd.level": _LEVEL,
    "kafka.linger.ms": _FULL_BATCHES,
    "kafka.max.in.flight.requests.per.connection": "a task has one request under way",
    "kafka.max.request.size": "a record may be as large as its topic takes",
    "kafka.retries": _DELIVERY,
    "kafka.retry.backoff.ms": _DELIVERY,
    "kafka.retry.backoff.max.ms": _DELIVERY,
    "kafka.reconnect.backoff.ms": _DELIVERY,
    "kafka.reconnect.backoff.max.ms": _DELIVERY,
    "kafka.partitioner.adaptive.partitioning.enable": _TURNS,
    "kafka.partitioner.availability.timeout.ms": _TURNS,
    "kafka.receive.buffer.bytes": _OWN_SOCKETS,
    "kafka.send.buffer.bytes": _OWN_SOCKETS,
    "kafka.connections.max.idle.ms": _OWN_SOCKETS,
    "kafka.socket.connection.setup.timeout.ms": _OWN_SOCKETS,
    "kafka.socket.connection.setup.timeout.max.ms": _OWN_SOCKETS,
    "kafka.client.dns.lookup": _OWN_SOCKETS,
    "kafka.metadata.max.age.ms": _LEADERS,
    "kafka.metadata.max.idle.ms": _LEADERS,
    "kafka.metadata.recovery.strategy": _LEADERS,
    "kafka.metadata.recovery.rebootstrap.trigger.ms": _LEADERS,
    "kafka.auto.include.jmx.reporter": _NO_JAVA,
    "kafka.enable.metrics.push": _NO_JAVA,
    "kafka.metric.reporters": _NO_JAVA,
    "kafka.metrics.*": _NO_JAVA,
    "kafka.security.providers": _NO_JAVA,
    "kafka.ssl.*": _PLAINTEXT,
    "kafka.sasl.*": _PLAINTEXT,
}
"""Option → why it has no effect on a write."""

REFUSED_BY_SINK = {
    "kafka.partitioner.class": f"{_NO_JAVA}: a row goes by the hash of its key, as in Kafka's own "
    "partitioner, or where the column partition says",
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
"""Option → what to do instead; those of `kafka.` are refused by Spark's Kafka source too."""
