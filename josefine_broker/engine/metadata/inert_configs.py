"""Topic configurations that tools set out of habit and that have nothing to act on here.

They are checked as Kafka checks them, kept, and described, so that a tool that sets one goes on and
one that compares finds what it set. Each says why it has no effect; COMPATIBILITY.md tells it, as
it tells which are refused.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from josefine_broker.engine.metadata.config_texts import INT_MAX, LONG_MAX, flag, number, off


class Inert(NamedTuple):
    """One of them. `type` is a name of ConfigType; `broker_name` is empty where Kafka's brokers
    have no default of it."""

    name: str
    broker_name: str
    type: str
    default: str
    parse: Callable[[str], object]
    why: str


_AS_SENT = "batches are stored as they were sent"
_ALL_LOCAL = "all storage is local, and kept by `retention.ms` and `retention.bytes`"

_THROTTLE = (
    "replication is throttled by each broker's own `replication.throttle_bytes_per_second`, for all"
    " replicas that are out of sync"
)
_THROTTLED_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


def throttled_replicas(text: str) -> str:
    """As Kafka's ThrottledReplicaListValidator reads them."""
    named = [part.strip() for part in text.split(",")]
    if text.strip() != "*" and not all(map(_THROTTLED_REPLICA.fullmatch, named)):
        raise ValueError("must be * or a list of partition:broker")
    return text


INERT: tuple[Inert, ...] = (
    Inert(
        "compression.gzip.level",
        "compression.gzip.level",
        "INT",
        "-1",
        number("", -1, 9),
        _AS_SENT,
    ),
    Inert(
        "compression.lz4.level", "compression.lz4.level", "INT", "9", number("", 1, 17), _AS_SENT
    ),
    Inert(
        "compression.zstd.level",
        "compression.zstd.level",
        "INT",
        "3",
        number("", -131_072, 22),
        _AS_SENT,
    ),
    Inert(
        "file.delete.delay.ms",
        "log.segment.delete.delay.ms",
        "LONG",
        "60000",
        number("file.delete.delay.ms", 0, LONG_MAX),
        "a reader has read its bytes before a file can go: nothing has to wait",
    ),
    Inert("follower.replication.throttled.replicas", "", "LIST", "", throttled_replicas, _THROTTLE),
    Inert("leader.replication.throttled.replicas", "", "LIST", "", throttled_replicas, _THROTTLE),
    Inert(
        "local.retention.bytes",
        "log.local.retention.bytes",
        "LONG",
        "-2",
        number("local.retention.bytes", -2, LONG_MAX),
        _ALL_LOCAL,
    ),
    Inert(
        "local.retention.ms",
        "log.local.retention.ms",
        "LONG",
        "-2",
        number("local.retention.ms", -2, LONG_MAX),
        _ALL_LOCAL,
    ),
    Inert(
        "preallocate",
        "log.preallocate",
        "BOOLEAN",
        "false",
        flag,
        "files grow with what is written: recovery takes their length for true",
    ),
    Inert(
        "remote.log.copy.disable",
        "remote.log.copy.disable",
        "BOOLEAN",
        "false",
        flag,
        _ALL_LOCAL,
    ),
    Inert(
        "remote.log.delete.on.disable",
        "remote.log.delete.on.disable",
        "BOOLEAN",
        "false",
        flag,
        _ALL_LOCAL,
    ),
    Inert(
        "remote.storage.enable",
        "remote.log.storage.system.enable",
        "BOOLEAN",
        "false",
        off("all storage is local"),
        "all storage is local; true is refused",
    ),
    Inert(
        "segment.index.bytes",
        "log.index.size.max.bytes",
        "INT",
        "10485760",
        number("segment.index.bytes", 4, INT_MAX),
        "an index is as long as its segment needs",
    ),
    Inert(
        "segment.jitter.ms",
        "log.roll.jitter.ms",
        "LONG",
        "0",
        number("segment.jitter.ms", 0, LONG_MAX),
        "a new segment costs nothing before it is written to: all may begin at once",
    ),
)

_SINCE_KAFKA_3 = "every record batch is of format 2, as in Kafka 4, which does not have it either"

REFUSED: Mapping[str, str] = {
    "message.downconversion.enable": _SINCE_KAFKA_3,
    "message.format.version": _SINCE_KAFKA_3,
}
"""Topic configurations of Kafka's that would promise what is not done, and why."""
