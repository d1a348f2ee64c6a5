"""Plausible values of every field of a request, and unusual ones of every type.

Everything that an episode names starts with its own prefix, so that episodes do not meet, and
nothing here stops, blocks or reconfigures a broker: it has to serve the next episode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from tests.oracle.records import BASE_MS, Batch
from tests.oracle.shapes import ZERO_ID, Field
from tests.oracle.symbols import Ref

UNKNOWN_ID = UUID("00000000-0000-4000-8000-00000000beef")


@dataclass(frozen=True, slots=True)
class Names:
    """What one episode calls its things."""

    episode: int

    @property
    def prefix(self) -> str:
        return f"e{self.episode}-"

    @property
    def topics(self) -> tuple[str, ...]:
        """The first two are there from the start, with one partition and with three."""
        return tuple(self.prefix + each for each in ("a", "b", "new", "gone"))

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self.prefix + each for each in ("g1", "g2", "g3", "g4"))

    @property
    def transactions(self) -> tuple[str, ...]:
        return tuple(self.prefix + each for each in ("t1", "t2"))

    @property
    def users(self) -> tuple[str, ...]:
        return tuple(self.prefix + each for each in ("u1", "u2"))


@dataclass(frozen=True, slots=True)
class Draw:
    """What a pool may look at: chance, the episode's names, and the API in question."""

    rng: Random
    names: Names
    api: str

    def one_of(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def topic(self) -> str:
        """Mostly one that is there."""
        a, b, new, gone = self.names.topics
        return self.rng.choice((a, a, a, b, b, b, new, gone))


def _records(d: Draw) -> Batch:
    compression = d.one_of(0, 0, 0, 1, 4)
    return Batch(number=d.rng.randrange(5), count=d.rng.randrange(1, 4), compression=compression)


def _topic_id(d: Draw) -> Ref:
    return Ref("topic_id", d.topic(), UNKNOWN_ID)


def _member(d: Draw) -> Any:
    return d.one_of("", "nobody", Ref("member", (d.one_of(*d.names.groups), "m1"), ""))


def _key(d: Draw) -> str:
    return str(d.one_of(*d.names.groups, *d.names.transactions))


def _resource_name(d: Draw) -> str:
    return str(d.one_of(d.topic(), d.topic(), d.names.groups[0]))


def _config_value(d: Draw) -> str:
    return str(d.one_of("1000", "60000", "delete", "compact", "1048576", "true"))


POOLS: dict[str, Callable[[Draw], Any]] = {
    "acks": lambda d: d.one_of(-1, -1, 1, 1, 0),
    "allow_auto_topic_creation": lambda d: d.one_of(True, False),
    "allow_replication_factor_change": lambda d: d.one_of(True, False),
    "assignment": lambda d: d.one_of(b"", b"\0\0\0\0\0\0\0\0\0\0"),
    "auth_bytes": lambda d: b"\0alice\0secret",
    "broker_id": lambda d: d.one_of(77, 2_000),
    "broker_ids": lambda d: [1],
    "client_software_name": lambda d: "oracle",
    "client_software_version": lambda d: "1.0",
    "committed_leader_epoch": lambda d: d.one_of(-1, 0, 5),
    "committed_metadata": lambda d: d.one_of("", "note"),
    "committed_offset": lambda d: d.one_of(0, 1, 7),
    "config_operation": lambda d: d.one_of(0, 0, 0, 1, 2, 3),
    "coordinator_keys": _key,
    "coordinator_epoch": lambda d: 0,
    "count": lambda d: d.one_of(2, 3, 4),
    "current_leader_epoch": lambda d: d.one_of(
        -1, -1, Ref("leader_epoch", (d.topic(), 0), -1), 1_000
    ),
    "duration_filter": lambda d: d.one_of(-1, -1, 0, 3_600_000),
    "election_type": lambda d: d.one_of(0, 0, 1),
    "enable2_pc": lambda d: False,
    "endpoint_type": lambda d: 1,
    "entity_type": lambda d: d.one_of("user", "client-id"),
    "entity_name": lambda d: d.one_of(*d.names.users),
    "feature": lambda d: "no.such.feature",
    "fetch_offset": lambda d: d.one_of(0, 0, 1, 2, 5, 1_000),
    "generation_id": lambda d: d.one_of(-1, 0, 1, Ref("generation_id", d.names.groups[0], -1)),
    "group_id": lambda d: d.one_of(*d.names.groups),
    "group_ids": lambda d: d.one_of(*d.names.groups),
    "group_instance_id": lambda d: None,
    "groups": lambda d: d.one_of(*d.names.groups),
    "groups_names": lambda d: d.one_of(*d.names.groups),
    "host": lambda d: d.one_of("*", "127.0.0.1"),
    "host_filter": lambda d: d.one_of(None, "*"),
    "index": lambda d: d.one_of(0, 0, 0, 1, 2, 9),
    "instance_id": lambda d: None,
    "isolation_level": lambda d: d.one_of(0, 1),
    "iterations": lambda d: d.one_of(4_096, 8_192),
    "keep_prepared_txn": lambda d: False,
    "key": lambda d: d.one_of("producer_byte_rate", "consumer_byte_rate", "request_percentage"),
    "key_type": lambda d: d.one_of(0, 0, 1),
    "last_fetched_epoch": lambda d: -1,
    "leader_epoch": lambda d: d.one_of(Ref("leader_epoch", (d.topic(), 0), 0), 1_000),
    "log_start_offset": lambda d: d.one_of(-1, 0),
    "match": lambda d: d.one_of(*d.names.users),
    "match_type": lambda d: d.one_of(0, 0, 1, 2),
    "max_bytes": lambda d: d.one_of(1_000_000, 1_000_000, 1, 200),
    "max_version_level": lambda d: d.one_of(1, 2),
    "max_wait_ms": lambda d: d.one_of(0, 10),
    "mechanism": lambda d: d.one_of("PLAIN", "SCRAM-SHA-256") if d.api == "SaslHandshake" else 1,
    "member_epoch": lambda d: d.one_of(-1, 0, Ref("member_epoch", (d.names.groups[3], "m1"), -1)),
    "generation_id_or_member_epoch": lambda d: d.one_of(-1, -1, 0, 1),
    "member_id": _member,
    "metadata": lambda d: b"\0\0\0\0\0\0\0\0\0\0",
    "min_bytes": lambda d: d.one_of(0, 1, 1),
    "name": lambda d: d.topic(),
    "num_partitions": lambda d: d.one_of(1, 2, 3, -1),
    "offset": lambda d: d.one_of(0, 1, 2, -1),
    "operation": lambda d: d.one_of(2, 3, 4, 8),
    "partition": lambda d: d.one_of(0, 0, 0, 1, 2, 9),
    "partition_index": lambda d: d.one_of(0, 0, 0, 1, 2, 9),
    "partition_indexes": lambda d: d.one_of(0, 0, 1, 2, 9),
    "partition_max_bytes": lambda d: d.one_of(1_000_000, 1_000_000, 100),
    "partitions": lambda d: d.one_of(0, 0, 1, 2, 9),
    "pattern_type_filter": lambda d: d.one_of(1, 2, 3, 4),
    "permission_type": lambda d: d.one_of(2, 3),
    "principal": lambda d: "User:" + d.one_of(*d.names.users),
    "principal_filter": lambda d: d.one_of(None, "User:" + d.names.users[0]),
    "producer_epoch": lambda d: d.one_of(-1, 0, Ref("producer_epoch", d.names.transactions[0], 0)),
    "producer_id": lambda d: d.one_of(-1, Ref("producer_id", d.names.transactions[0], 12_345)),
    "producer_id_filters": lambda d: Ref("producer_id", d.names.transactions[0], 12_345),
    "protocol_name": lambda d: d.one_of("range", None),
    "protocol_type": lambda d: "consumer",
    "rack_id": lambda d: "",
    "rebalance_timeout_ms": lambda d: 20_000,
    "reason": lambda d: d.one_of(None, "because"),
    "records": _records,
    "replica_id": lambda d: -1,
    "replica_epoch": lambda d: -1,
    "replicas": lambda d: 1,
    "replication_factor": lambda d: d.one_of(1, 1, -1),
    "resource_name": _resource_name,
    "resource_name_filter": lambda d: d.one_of(None, d.topic()),
    "resource_pattern_type": lambda d: d.one_of(3, 3, 4),
    "resource_type": lambda d: 2,
    "resource_type_filter": lambda d: d.one_of(1, 2, 2, 3),
    "response_partition_limit": lambda d: d.one_of(2_000, 1, 2),
    "retention_time_ms": lambda d: d.one_of(-1, 100_000),
    "salt": lambda d: b"0123456789abcdef",
    "salted_password": lambda d: b"0123456789abcdef0123456789abcdef",
    "server_assignor": lambda d: d.one_of(None, "uniform", "range"),
    "session_epoch": lambda d: d.one_of(-1, -1, -1, 0),
    "session_id": lambda d: 0,
    "session_timeout_ms": lambda d: d.one_of(10_000, 30_000),
    "state_filters": lambda d: d.one_of("Ongoing", "Empty", "CompleteCommit"),
    "states_filter": lambda d: d.one_of("Stable", "Empty", "PreparingRebalance"),
    "subscribed_topic_names": lambda d: d.one_of(*d.names.topics[:2]),
    "subscribed_topic_regex": lambda d: None,
    "timeout_ms": lambda d: 2_000,
    "timestamp": lambda d: d.one_of(-1, -2, -3, BASE_MS, BASE_MS + 21, 0),
    "topic": lambda d: d.topic(),
    "topic_id": _topic_id,
    "topic_name": lambda d: d.topic(),
    "topic_names": lambda d: d.one_of(d.names.topics[2], d.names.topics[3]),
    "transaction_timeout_ms": lambda d: d.one_of(60_000, 30_000),
    "transaction_version": lambda d: d.one_of(1, 2),
    "transactional_id": lambda d: d.one_of(*d.names.transactions),
    "transactional_ids": lambda d: d.one_of(*d.names.transactions),
    "types_filter": lambda d: d.one_of("classic", "consumer"),
    "upgrade_type": lambda d: 1,
    "validate_only": lambda d: d.one_of(False, False, True),
    "value": _config_value,
    "verify_only": lambda d: d.one_of(False, True),
    "voter_id": lambda d: 77,
    "voter_directory_id": lambda d: UNKNOWN_ID,
    "AlterClientQuotas.value": lambda d: d.one_of(1e6, 2e6, 12.5),
    "AlterUserScramCredentials.name": lambda d: d.one_of(*d.names.users),
    "CreateTopics.name": lambda d: d.names.topics[2],
    "CreateTopics.configs.name": lambda d: d.one_of("retention.ms", "cleanup.policy"),
    "AlterConfigs.configs.name": lambda d: d.one_of("retention.ms", "cleanup.policy"),
    "IncrementalAlterConfigs.configs.name": lambda d: d.one_of("retention.ms", "cleanup.policy"),
    "DeleteTopics.name": lambda d: d.one_of(*d.names.topics[2:]),
    "DescribeConfigs.configuration_keys": lambda d: d.one_of("retention.ms", "cleanup.policy"),
    "DescribeQuorum.topic_name": lambda d: "__cluster_metadata",
    "DescribeQuorum.partition_index": lambda d: 0,
    "DescribeUserScramCredentials.name": lambda d: d.one_of(*d.names.users),
    "FindCoordinator.key": _key,
    "JoinGroup.protocols.name": lambda d: d.one_of("range", "roundrobin"),
    "Produce.transactional_id": lambda d: d.one_of(None, None, None, d.names.transactions[0]),
    "InitProducerId.transactional_id": lambda d: d.one_of(None, *d.names.transactions),
    "InitProducerId.producer_id": lambda d: -1,
    "InitProducerId.producer_epoch": lambda d: -1,
    "RemoveRaftVoter.cluster_id": lambda d: None,
    "Fetch.cluster_id": lambda d: None,
}
"""By the field's name; `API.field` and `API.list.field` go before."""

PLAIN_BY_KIND: dict[str, Any] = {
    "bool": False, "int8": 0, "int16": 0, "uint16": 0, "int32": 0, "int64": -1, "uuid": ZERO_ID,
    "string": "", "bytes": b"", "float64": 0.0,
}  # fmt: skip

UNUSUAL: dict[str, tuple[Any, ...]] = {
    "int8": (-1, 0, 1, 2, 5, 100, 127, -128),
    "int16": (-1, 0, 1, -2, 2**15 - 1, -(2**15)),
    "uint16": (0, 1, 2**16 - 1),
    "int32": (-1, 0, 1, -2, 2**31 - 1, -(2**31)),
    "int64": (-1, 0, 1, -2, -3, -4, -5, -6, 2**63 - 1, -(2**63)),
    "uuid": (ZERO_ID, UNKNOWN_ID, UUID(int=1)),
    "bytes": (b"", b"\xff\xff\xff\xff", b"x" * 100),
    "float64": (0.0, -1.0, 1e300),
    "bool": (True, False),
}

STRINGS = (" ", "a b", "é\u4e16", "x" * 250, "no-such")
"""Behind the episode's prefix: as the name of a group they are legal, and stay."""
TOPICS = ("", "..", "__consumer_offsets")
CHANGES_TOPICS = (
    "AlterConfigs", "AlterPartitionReassignments", "CreatePartitions", "DeleteRecords",
    "DeleteTopics", "IncrementalAlterConfigs",
)  # fmt: skip
"""Kafka lets an administrator delete even its own topics, and has no coordinators then."""

TIMES = {
    "timeout_ms": (30_000, 5_000),  # with less Kafka's controller may or may not be in time
    "max_wait_ms": (0, 50, -1),
    "rebalance_timeout_ms": (20_000, 60_000),  # longer than an episode: none ends by time
    "session_timeout_ms": (0, -1, 5_999, 6_000, 1_800_001),
    "retention_time_ms": (0, -1, -2, 1_000),
    "transaction_timeout_ms": (0, -1, 900_000, 900_001, 2**31 - 1),
}
BOUNDED = {
    "replica_id": (-1, -2),  # fetches of replicas are brokers' own
    "replica_epoch": (-1, 0),
    "member_epoch": (0, -3, 1_000, -(2**31)),  # a group's first epoch is the broker's choice
    "num_partitions": (0, -1, -2, 12),
    "count": (0, -1, 1, 12),
    "broker_id": (-1, 2**31 - 1),
    "voter_id": (-1, 2**31 - 1),
    "feature": ("", "group.version ", "é"),
    "iterations": (0, 4_095, 4_096, 16_384, 16_385, -1),
    "enable2_pc": (True, False),
    "min_bytes": (0, -1, 1),
    "resource_type": (0, 1, 2, 3, 4, 16, 32, 99, -1),
    "state_filters": ("", "Nonsense", "ongoing", "Ongoing"),
    "states_filter": ("", "Nonsense", "stable", "STABLE"),
    "types_filter": ("", "Nonsense", "CLASSIC", "share"),
    "entity_type": ("", "ip", "client-id", "nonsense"),
    "entity_name": ("", None),
    "principal": ("", "User:", "nobody", "User:*", "Group:a"),
    "subscribed_topic_regex": ("", "e.*a", "[", "(?i)E.*", "no-such-.*"),
    "timestamp": (-1, -2, -3, -4, -5, -6, -7, 0, 2**63 - 1, BASE_MS + 1_000_000),
    "protocol_type": ("", "connect", "consumer", "é"),
}
"""Unusual values of fields whose type would allow too much: waits, sizes, the broker itself."""


def plausible(d: Draw, path: tuple[str, ...], field: Field) -> Any:
    """A value of a field that is not a structure."""
    names = [part.removeprefix("v3_and_below_") for part in (*path, field.name)]
    for key in (".".join((d.api, *names[-2:])), f"{d.api}.{names[-1]}", names[-1]):
        if (pool := POOLS.get(key)) is not None:
            return pool(d)
    return PLAIN_BY_KIND[_plain_kind(field)]


def _plain_kind(field: Field) -> str:
    """A time is a number on the wire."""
    return {"timedelta_i32": "int32", "timedelta_i64": "int64"}.get(field.kind, field.kind)


def unusual(d: Draw, field: Field) -> Any:
    """A legal value that a client rarely sends."""
    name = field.name.removeprefix("v3_and_below_")
    if field.kind == "records":  # never null: Kafka's broker fails over it and does not answer
        good, next_one = (Batch(number=number).build(-1, -1) for number in (1, 2))
        return d.one_of(b"", good[:-1], good[:60], good + next_one, good[:16] + b"\1" + good[17:])
    if field.is_nullable and d.rng.random() < 0.3:
        return None
    values = TIMES.get(name) or BOUNDED.get(name)
    if values is None and field.kind == "string":
        is_topic = "topic" in name or name == "name"
        values = ("", *(d.names.prefix + each for each in STRINGS), *(TOPICS if is_topic else ()))
        if d.api in CHANGES_TOPICS:
            values = tuple("__no_such" if each.startswith("__") else each for each in values)
    if values is None:
        values = UNUSUAL[_plain_kind(field)]
    value = d.rng.choice(values)
    if value is None and not field.is_nullable:
        return ""
    return value
