"""Topic configs that tools set by default and that have no effect in this broker.

They are checked as in Kafka, stored and described, so that a tool that sets one continues and a
tool that compares configs finds what it has set. Each has a reason for having no effect;
COMPATIBILITY.md lists them, and the configs that are refused.
"""

from collections.abc import Mapping
from typing import NamedTuple

from josefine_broker.engine.metadata.config_texts import (
    Check,
    ConfigType,
    anything,
    at_least,
    between,
    throttled_replicas,
)

_BOOLEAN, _INT, _LONG, _LIST = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG, ConfigType.LIST


class Inert(NamedTuple):
    """A config without effect. `broker_name` is empty if the broker has no default for it."""

    name: str
    broker_name: str
    type: ConfigType
    default: str
    check: Check
    why: str


_JAVA_ARRAY_BYTES_MAX = 2**31 - 9
_ARCHIVED_SOON = "the archive gets records within seconds, not once their segment is closed"
_NO_REMOTE_LOG = "true is refused with an archive, which only its writer and its owner change"
_OWN_THROTTLE = (
    "a broker throttles all of its replicas that are out of sync, by its own"
    " `replication.throttle_bytes_per_second`"
)
_BATCH_BOUND = "a record is limited by its batch, whose decompressed size has its own limit"
_AS_NEEDED = "an index is as long as its segment needs"
_FILES_GROW = "files grow with what is written: recovery relies on their length"
_READ_BEFORE = "a reader has read its bytes before a file is deleted: nothing has to wait"
_ALL_AT_ONCE = "a new segment costs nothing before it is written to: all may start at once"

INERT: tuple[Inert, ...] = (
    Inert(
        "file.delete.delay.ms", "log.segment.delete.delay.ms", _LONG, "60000", at_least(0),
        _READ_BEFORE,
    ),
    Inert(
        "follower.replication.throttled.replicas", "", _LIST, "", throttled_replicas,
        _OWN_THROTTLE,
    ),
    Inert(
        "leader.replication.throttled.replicas", "", _LIST, "", throttled_replicas, _OWN_THROTTLE
    ),
    Inert(
        "max.decompressed.message.bytes", "max.decompressed.message.bytes", _INT, "2147483639",
        between(1, _JAVA_ARRAY_BYTES_MAX), _BATCH_BOUND,
    ),
    Inert("preallocate", "log.preallocate", _BOOLEAN, "false", anything, _FILES_GROW),
    Inert(
        "remote.copy.lag.bytes", "log.remote.copy.lag.bytes", _LONG, "-1", at_least(-1),
        _ARCHIVED_SOON,
    ),
    Inert("remote.copy.lag.ms", "log.remote.copy.lag.ms", _LONG, "0", at_least(-1), _ARCHIVED_SOON),
    Inert("remote.log.copy.disable", "", _BOOLEAN, "false", anything, _NO_REMOTE_LOG),
    Inert("remote.log.delete.on.disable", "", _BOOLEAN, "false", anything, _NO_REMOTE_LOG),
    Inert(
        "segment.index.bytes", "log.index.size.max.bytes", _INT, "10485760", at_least(4),
        _AS_NEEDED,
    ),
    Inert("segment.jitter.ms", "log.roll.jitter.ms", _LONG, "0", at_least(0), _ALL_AT_ONCE),
)  # fmt: skip

_SINCE_KAFKA_3 = "every record batch is of format 2, as in Kafka 4, which does not have it either"

REFUSED: Mapping[str, str] = {
    "message.downconversion.enable": _SINCE_KAFKA_3,
    "message.format.version": _SINCE_KAFKA_3,
}
"""Kafka's topic configs that are refused because they would have no effect, and why."""
