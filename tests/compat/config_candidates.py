"""Candidate values of topic configs for the differential test against Apache Kafka: for each type
the texts at the edges of what Java's parsers and Kafka's validators accept."""

from __future__ import annotations

from typing import NamedTuple

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
"""Numbers of types in DescribeConfigs (KIP-569)."""
SET, DELETE, APPEND, SUBTRACT = range(4)
"""Operations of IncrementalAlterConfigs (KIP-339)."""

UNDESCRIBED = ("internal.segment.bytes",)
"""Configs that Kafka accepts and never describes."""
UNKNOWN = (
    "retension.ms",
    "log.retention.ms",
    "message.downconversion.enable",
    "message.format.version",
    "RETENTION.MS",
    " retention.ms",
    "",
)


class Difference(NamedTuple):
    """Verdicts that are known to differ from Kafka's, by a pattern of their labels."""

    pattern: str
    what: str
    here: str


DIFFERENT: tuple[Difference, ...] = (
    Difference(
        "set segment.bytes=*",
        "`segment.bytes` below 1 MiB",
        "accepted from 1,024 bytes on, as Kafka before 4.0 did from 14: small segments harm nobody",
    ),
    Difference(
        "edits * retention.ms=[4-]*:1",
        "an operation of IncrementalAlterConfigs that there is not",
        "INVALID_REQUEST (Kafka: UNKNOWN_SERVER_ERROR, for all resources of the request)",
    ),
    Difference(
        "broker_edits 1 num.partitions=2:3",
        "APPEND and SUBTRACT on a broker's config that is not a list",
        "INVALID_REQUEST, as every change of a broker's settings: they are in its file (Kafka:"
        " INVALID_CONFIG)",
    ),
)
"""Each has its row in COMPATIBILITY.md."""

_ANY = ("", " ", "null", "seven", "7", "true", ",", "7,8")
_INTEGERS = (
    *("0", "1", "2", "3", "4", "9", "10", "17", "18", "22", "23", "64", "1023", "1024"),
    *("32767", "32768", "65536", "1048575", "1048576", "2000000"),
    *("-1", "-2", "-3", "-131072", "-131073", "+7", "-0", "+0", "007", "--7", "+-7", "-", "+"),
    *(" 7 ", "\t7\n", "7 8", "\u00a07", "7\u2003", "\u0667", "\uff17", "\U0001d7d5", "\u00b2"),
    *("7.0", "7.", "1e3", "0x10", "0b1", "1_000", "7L", "7d", "7ms", "1,000", "NaN"),
    *(str(sign * 2**bits + step) for bits in (31, 63) for sign in (1, -1) for step in (-1, 0, 1)),
)
_DECIMALS = (
    *("0", "1", "0.5", ".5", "1.", ".", "0.", "-0.0", "-0.1", "1.1", "+0.25", "00.5", "0.10"),
    *("1.0E-4", "1e-4", "1E-4", "1.e-1", "1e+0", "1e", "e1", "1e-", "1e-400", "4.9e-324", "2e-323"),
    *("0.001", "0.0009999", "0.01", "0.1", "0.30000000000000004", "0.3333333333333333333333"),
    *("123456.789e-6", "9.999999999999999999e-1", "1.0000000000000000000001", "5E-7"),
    *("0.5f", "0.5F", "0.5d", "0.5D", "0.5L", "0.5fd", "1e-1d", "1d", "1f", ".5e0f"),
    *("0x1p-1", "0X1P-1", "0x.8p0", "0x1.p-2", "0x0.0p0", "0x1.8p-1f", "0x1", "0x1.8", "0x1p-1 f"),
    *("0x1p1", "0xp1", "0x.p1", "0x1p", "-0x0p0", "0x1p-1100", "0x1p99999999999"),
    *("NaN", "+NaN", "-NaN", "nan", "NaNf", "Infinity", "-Infinity", "infinity", "inf", "1e999"),
    *(" 0.5 ", "\t0.5\n", "0.5 f", "0 .5", "\u00a00.5", "0\u06f55", "0.\u0665", "0,5", "1_0e-1"),
    *("0e99999999999999999999", "1e-99999999999999999999", "1/2", "50%", "++1", "--1"),
)
_BOOLEANS = (
    *("true", "TRUE", "True", "tRuE", " true ", "\ttrue\n", "\u00a0true", "truee", "tru\u00e9"),
    *("false", "FALSE", "False", " false ", "fal\u017fe", "yes", "no", "on", "off", "1", "0", "t"),
)
_WORDS = {
    "compression.type": (
        *("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd", "none", "GZIP", "Producer"),
        *(" gzip ", "\tzstd\n", "brotli", "gzip,lz4", "lz4 hc"),
    ),
    "message.timestamp.type": (
        *("CreateTime", "LogAppendTime", "createtime", "LOGAPPENDTIME", " CreateTime "),
        *("NoTimestampType", "LogAppendTime,CreateTime"),
    ),
}
_POLICIES = (
    *("delete", "compact", "delete,compact", "compact,delete", " compact , delete ", "compact, "),
    *("Delete", "COMPACT", "compact,compact", "compact,", ",compact", "compact,,delete", ",,"),
    *("none", "archive", "delete;compact", "delete compact", "\tcompact\n,\tdelete"),
)
_THROTTLED = (
    *("*", "0:1", "0:1,1:2", " 0:1 , 1:2 ", "0:1,0:1", "*,*", "0:1,*", "*,0:1", "none", "None"),
    *("0", "0:", ":1", "a:b", "0:1:2", "0:1,", "-1:0", "0:-1", "+0:1", "0 : 1", "00:01", "**"),
)


def candidates(name: str, kind: int) -> tuple[str, ...]:
    """Each text once."""
    texts: tuple[str, ...] = {
        BOOLEAN: _BOOLEANS, INT: _INTEGERS, LONG: _INTEGERS, DOUBLE: _DECIMALS,
        STRING: _WORDS.get(name, ()), LIST: _POLICIES if "policy" in name else _THROTTLED,
    }[kind]  # fmt: skip
    return tuple(dict.fromkeys((*_ANY, *texts)))


class Edit(NamedTuple):
    """One IncrementalAlterConfigs of a topic that was created with `before`."""

    before: tuple[tuple[str, str], ...]
    changes: tuple[tuple[str, int, str | None], ...]


def edits() -> list[Edit]:
    """Operations whose outcome depends on what the topic has, or that are wrong in themselves."""
    policy, ratio, lag = "cleanup.policy", "min.cleanable.dirty.ratio", "compaction.lag.ms"
    found = [
        Edit(() if before is None else ((policy, before),), ((policy, operation, value),))
        for before in (None, "", "delete", "compact", "delete,compact", " compact , delete ")
        for operation in (APPEND, SUBTRACT)
        for value in ("delete", "compact", "compact,delete", "", " compact ", "archive", ",")
    ]
    throttled = "leader.replication.throttled.replicas"
    found += [
        Edit(() if before is None else ((throttled, before),), ((throttled, operation, value),))
        for before in (None, "*", "0:1", "0:1,0:2")
        for operation in (APPEND, SUBTRACT)
        for value in ("*", "0:1", "1:1,1:2", "none", "")
    ]
    given = (("retention.ms", "5"), (ratio, "1.0E-4"), (policy, "compact"))
    found += [
        Edit(given, changes)
        for changes in (
            (("retention.ms", DELETE, None),),
            (("retention.ms", DELETE, "5"),),
            ((policy, DELETE, ""),),
            (("segment.ms", DELETE, None),),
            (("no.such.config", DELETE, None),),
            (("message.format.version", DELETE, None),),
            (("no.such.config", SET, "1"),),
            (("no.such.config", APPEND, "1"),),
            (("retention.ms", SET, None),),
            ((policy, APPEND, None),),
            ((policy, SUBTRACT, None),),
            (("retention.ms", APPEND, "1"),),
            (("preallocate", SUBTRACT, "true"),),
            (("compression.type", APPEND, "gzip"),),
            (("retention.ms", 4, "1"),),
            (("retention.ms", -1, "1"),),
            (("retention.ms", 4, None),),
            (("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
            (("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
            (("segment.ms", SET, "x"), ("retention.ms", SET, "1")),
            (("retention.ms", SET, "6"), ("segment.ms", SET, "7"), (policy, DELETE, None)),
            (("min." + lag, SET, "9"), ("max." + lag, SET, "8")),
            (("min." + lag, SET, "9"), ("max." + lag, SET, "9")),
            (("min." + lag, SET, str(2**63 - 1)),),
        )
    ]
    found += [
        Edit((("max." + lag, "8"),), (("min." + lag, SET, "9"),)),
        Edit((("min." + lag, "9"),), (("max." + lag, SET, "8"),)),
        Edit((("min." + lag, "9"), ("max." + lag, "9")), (("max." + lag, DELETE, None),)),
        Edit((("remote.storage.enable", "false"),), (("remote.storage.enable", SET, "true"),)),
        Edit((("local.retention.ms", "9"), ("retention.ms", "5")), (("segment.ms", SET, "7"),)),
    ]
    return found


def creations() -> list[tuple[tuple[str, str | None], ...]]:
    """Configs that CreateTopics is given together, or without a value."""
    return [
        (("retention.ms", None),),
        (("no.such.config", None),),
        (("retention.ms", "1"), ("segment.ms", None)),
        (("retention.ms", "1"), ("retention.ms", "2")),
        (("retention.ms", "x"), ("retention.ms", "2")),
        (("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "8")),
        (("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "9")),
        (("retention.ms", "1"), ("no.such.config", "1")),
        (("local.retention.ms", "9"), ("retention.ms", "5")),
        (("local.retention.bytes", "9"), ("retention.bytes", "5")),
        (("remote.storage.enable", "true"), ("cleanup.policy", "compact")),
    ]


def replacements() -> list[tuple[tuple[str, str | None], ...]]:
    """Configs that AlterConfigs is given."""
    return [*creations(), (), (("cleanup.policy", ""),), (("segment.ms", "0"),)]


def broker_edits() -> list[tuple[str, str, int, str | None]]:
    """(broker, config, operation, value): what no broker lets change while it runs, and names."""
    return [
        ("1", "node.id", SET, "7"),
        ("1", "log.dirs", SET, "/elsewhere"),
        ("1", "num.partitions", SET, "3"),
        ("1", "num.partitions", SET, None),
        ("1", "num.partitions", APPEND, "3"),
        ("1", "no.such.config", DELETE, None),
        ("1", "leader.replication.throttled.rate", DELETE, None),
        ("", "leader.replication.throttled.rate", DELETE, None),
        ("seven", "num.partitions", SET, "3"),
        ("-1", "num.partitions", SET, "3"),
        ("7", "num.partitions", SET, "3"),
        ("7", "no.such.config", DELETE, None),
    ]
