"""Topic configurations that tools set out of habit and that have nothing to act on here.

They are checked as Kafka checks them, kept, and described, so that a tool that sets one goes on and
one that compares finds what it set. Each says why it has no effect; COMPATIBILITY.md tells it.
"""

from collections.abc import Callable
from typing import NamedTuple

from josefine_broker.engine.metadata.config_texts import INT_MAX, LONG_MAX, flag, number, off


class Inert(NamedTuple):
    """One of them. `type` is a name of ConfigType."""

    name: str
    broker_name: str
    type: str
    default: str
    parse: Callable[[str], object]
    why: str


_AS_SENT = "batches are stored as they were sent"

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
    Inert(
        "preallocate",
        "log.preallocate",
        "BOOLEAN",
        "false",
        flag,
        "files grow with what is written: recovery takes their length for true",
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
