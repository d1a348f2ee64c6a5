"""Sequences of requests with state, as clients send them: records, groups, transactions, admin.

Each is a generator of steps, drawn with chance from its author: which versions, which values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from josefine_broker.wire import apis
from tests.oracle.author import Author, Step
from tests.oracle.pools import UNKNOWN_ID
from tests.oracle.records import BASE_MS, Batch
from tests.oracle.shapes import ZERO_ID
from tests.oracle.symbols import Ref

Steps = Iterator[Step]
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1a\0\0\0\0"
ASSIGNMENT = b"\0\0\0\0\0\1\0\1a\0\0\0\1\0\0\0\0\0\0\0\0"


def topic_fields(topic: str, partition: int = 0) -> dict[str, Any]:
    """One partition, whatever a version calls it."""
    return {
        "name": topic, "topic": topic, "topic_id": Ref("topic_id", topic, UNKNOWN_ID),
        "partition_index": partition, "partition": partition, "index": partition,
        "partitions.partition_index": partition, "partition_indexes": [partition],
    }  # fmt: skip


def records(author: Author) -> Steps:
    """Produce, look up offsets, fetch, delete records, fetch again."""
    topic = author.rng.choice(author.names.topics[:2])
    at = topic_fields(topic)
    for number in range(2, 5):
        batch = Batch(number=number, count=2, compression=author.rng.choice((0, 0, 1, 4)))
        fixed = {
            **at,
            "records": batch,
            "acks": author.rng.choice((-1, 1)),
            "transactional_id": None,
        }
        yield author.request(apis.PRODUCE, None, fixed)
    for timestamp in (-1, -2, author.rng.choice((-3, -4, -5, BASE_MS + 21, 0, BASE_MS + 99_999))):
        yield author.request(apis.LIST_OFFSETS, None, {**at, "timestamp": timestamp})
    for offset in (0, author.rng.choice((1, 3, 1_000))):
        fixed = {**at, "fetch_offset": offset, "session_id": 0, "session_epoch": -1}
        yield author.request(apis.FETCH, None, fixed)
    yield author.request(apis.DELETE_RECORDS, None, {**at, "offset": author.rng.choice((1, 3, -1))})
    yield author.request(apis.LIST_OFFSETS, None, {**at, "timestamp": -2})
    yield author.request(apis.FETCH, None, {**at, "fetch_offset": author.rng.choice((0, 2, 4))})
    epoch = {"leader_epoch": author.rng.choice((0, 1_000, Ref("leader_epoch", (topic, 0), 0)))}
    yield author.request(apis.OFFSET_FOR_LEADER_EPOCH, None, {**at, **epoch})
    yield author.request(apis.DESCRIBE_LOG_DIRS, None, {"topic": topic, "partitions": [0]})


def fetch_sessions(author: Author) -> Steps:
    """A session that is made, used, changed, left by a wrong epoch, and closed."""
    topic = author.names.topics[1]
    at = topic_fields(topic)
    session = Ref("session", "s", 0)
    version = author.rng.choice(range(7, 19))
    nobody = {**at, "forgotten_topics_data": []}
    whole = {**nobody, "session_id": 0, "session_epoch": 0, "fetch_offset": 0}
    yield author.request(apis.FETCH, version, whole, label="s", mutations=0)
    for epoch in (1, 2, author.rng.choice((3, 9))):
        part = {**nobody, "session_id": session, "session_epoch": epoch}
        if epoch == 2:
            batch = {**at, "records": Batch(number=7), "acks": -1, "transactional_id": None}
            yield author.request(apis.PRODUCE, 9, batch, mutations=0)
        yield author.request(apis.FETCH, version, {**part, "topics": []})
    gone = {**nobody, "session_id": session, "session_epoch": -1, "topics": []}
    yield author.request(apis.FETCH, version, gone)
    yield author.request(apis.FETCH, version, {**gone, "session_epoch": 1})


def idempotent(author: Author) -> Steps:
    """A producer with sequence numbers: again, with a gap, with an older and a newer epoch."""
    topic = author.rng.choice(author.names.topics[:2])
    at = topic_fields(topic)
    fixed = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
    yield author.request(apis.INIT_PRODUCER_ID, None, fixed, label="p", mutations=0)
    sequences = [0, 2, author.rng.choice((2, 4)), author.rng.choice((0, 9, 4)), 6]
    for number, sequence in enumerate(sequences):
        epoch = author.rng.choice((0, 0, 0, 0, 1))
        batch = Batch(
            number=number,
            producer_id=Ref("producer_id", "p", 4_000),
            producer_epoch=Ref("producer_epoch", "p", 0, epoch),
            sequence=sequence,
        )
        fixed = {**at, "records": batch, "acks": -1, "transactional_id": None}
        yield author.request(apis.PRODUCE, None, fixed, mutations=0)
    yield author.request(apis.DESCRIBE_PRODUCERS, None, at)
    yield author.request(apis.FETCH, None, {**at, "fetch_offset": 0, "session_id": 0})


def transactions(author: Author) -> Steps:
    """One producer's transactions: partitions, records, offsets, an end, what readers see."""
    topic = author.rng.choice(author.names.topics[:2])
    at = topic_fields(topic)
    name, group = author.names.transactions[0], author.names.groups[2]
    own = {
        "transactional_id": name, "group_id": group,
        "producer_id": Ref("producer_id", name, 4_000),
        "producer_epoch": Ref("producer_epoch", name, 0),
    }  # fmt: skip
    fresh = {"producer_id": -1, "producer_epoch": -1, "transaction_timeout_ms": 60_000}
    start = {"transactional_id": name, **fresh, "keep_prepared_txn": False, "enable2_pc": False}
    yield author.request(apis.INIT_PRODUCER_ID, None, start, label=name, mutations=0)
    for turn in range(2):
        partitions = {**own, "name": topic, "partitions": [0], "verify_only": False}
        version = author.rng.choice((None, 0, 3))
        yield author.request(apis.ADD_PARTITIONS_TO_TXN, version, partitions)
        batch = Batch(
            number=turn, producer_id=own["producer_id"], producer_epoch=own["producer_epoch"],
            sequence=2 * turn, transactional=True,
        )  # fmt: skip
        fixed = {**at, "records": batch, "acks": -1, "transactional_id": name}
        yield author.request(apis.PRODUCE, author.rng.choice((None, 11)), fixed)
        yield author.request(apis.ADD_OFFSETS_TO_TXN, None, own)
        offsets = {**own, **at, "generation_id": -1, "member_id": "", "committed_offset": turn + 1}
        yield author.request(apis.TXN_OFFSET_COMMIT, None, offsets)
        yield author.request(apis.LIST_OFFSETS, None, {**at, "timestamp": -1, "isolation_level": 1})
        yield author.request(apis.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": [name]})
        end = {**own, "committed": author.rng.choice((True, False))}
        yield author.request(apis.END_TXN, author.rng.choice((3, 4)), end, label=name)
        read = {**at, "fetch_offset": 0, "session_id": 0, "isolation_level": 1}
        yield author.request(apis.FETCH, None, read)
        yield author.request(apis.OFFSET_FETCH, None, {**at, "group_id": group})
    yield author.request(apis.LIST_TRANSACTIONS, None)
    yield author.request(apis.INIT_PRODUCER_ID, None, start, label=name)
    yield author.request(apis.END_TXN, None, own, label=name)


def classic_group(author: Author) -> Steps:
    """A member alone: joins, syncs, commits, leaves; the group is described and deleted."""
    group, topic = author.names.groups[0], author.names.topics[0]
    slot = (group, "m1")
    instance = author.rng.choice((None, None, "static-1"))
    me = {
        "group_id": group, "member_id": Ref("member", slot, ""), "group_instance_id": instance,
        "generation_id": Ref("generation_id", group, -1), "protocol_type": "consumer",
        "generation_id_or_member_epoch": Ref("generation_id", group, -1),
        "session_timeout_ms": 30_000, "rebalance_timeout_ms": 20_000,
    }  # fmt: skip
    protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
    join = {**me, "protocols": protocols}
    version = author.rng.choice(range(10))
    yield author.request(apis.JOIN_GROUP, version, join, label=slot, mutations=0)
    yield author.request(apis.JOIN_GROUP, version, join, label=slot)
    share = [{"member_id": Ref("member", slot, ""), "assignment": ASSIGNMENT}]
    sync = {**me, "assignments": share, "protocol_name": "range"}
    yield author.request(apis.SYNC_GROUP, None, sync)
    yield author.request(apis.HEARTBEAT, None, me)
    at = topic_fields(topic)
    yield author.request(apis.OFFSET_COMMIT, None, {**me, **at})
    reader = {"group_id": group, "member_id": None, "member_epoch": -1, "require_stable": False}
    yield author.request(apis.OFFSET_FETCH, None, {**reader, **at})
    yield author.request(apis.DESCRIBE_GROUPS, None, {"groups": [group]})
    yield author.request(apis.LIST_GROUPS, None)
    yield author.request(apis.DELETE_GROUPS, None, {"groups_names": [group]})
    yield author.request(apis.OFFSET_DELETE, None, {"group_id": group, **at})
    leave = {**me, "members": [{"member_id": me["member_id"], "group_instance_id": instance,
                                "reason": None}]}  # fmt: skip
    yield author.request(apis.LEAVE_GROUP, None, leave)
    yield author.request(apis.HEARTBEAT, None, me)
    yield author.request(apis.OFFSET_DELETE, None, {"group_id": group, **at})
    yield author.request(apis.DELETE_GROUPS, None, {"groups_names": [group, group]})
    yield author.request(apis.OFFSET_FETCH, None, {**reader, **at})


def two_members(author: Author) -> Steps:
    """A second member joins while the first is at work; both sync; one leaves."""
    group = author.names.groups[1]
    first, second = (group, "m1"), (group, "m2")

    def member(slot: tuple[str, str]) -> dict[str, Any]:
        return {
            "group_id": group, "member_id": Ref("member", slot, ""), "group_instance_id": None,
            "generation_id": Ref("generation_id", group, -1), "protocol_type": "consumer",
            "session_timeout_ms": 30_000, "rebalance_timeout_ms": 20_000,
            "protocols": [{"name": author.rng.choice(("range", "sticky")), "metadata": b"m"},
                          {"name": "cooperative", "metadata": b""}],
            "protocol_name": None,
        }  # fmt: skip

    version = author.rng.choice((3, 4, 6, 9))
    join = apis.JOIN_GROUP
    twice = 2 if version >= 4 else 1  # since 4 a member gets its id first (KIP-394)
    for _ in range(twice):
        yield author.request(join, version, member(first), label=first, mutations=0)
    sync = {**member(first), "assignments": []}
    yield author.request(apis.SYNC_GROUP, None, sync, mutations=0)
    for _ in range(twice):
        yield author.request(join, version, member(second), label=second, connection=1, mutations=0)
    yield author.request(apis.HEARTBEAT, None, member(first))
    yield author.request(apis.DESCRIBE_GROUPS, None, {"groups": [group]})
    yield author.request(join, version, member(first), label=first, mutations=0)
    waits = {**member(second), "assignments": []}
    yield author.request(apis.SYNC_GROUP, None, waits, connection=1, mutations=0)
    shares = [
        {"member_id": Ref("member", slot, ""), "assignment": share}
        for slot, share in ((first, b"one"), (second, b"two"))
    ]
    yield author.request(apis.SYNC_GROUP, None, {**member(first), "assignments": shares})
    yield author.request(apis.HEARTBEAT, None, member(second), connection=1)
    yield author.request(apis.DESCRIBE_GROUPS, None, {"groups": [group]})
    leave = {"group_id": group, "member_id": Ref("member", first, ""), "group_instance_id": None}
    yield author.request(apis.LEAVE_GROUP, None, leave)
    yield author.request(apis.HEARTBEAT, None, member(second), connection=1)
    yield author.request(apis.DESCRIBE_GROUPS, None, {"groups": [group]})


def consumer_group(author: Author) -> Steps:
    """Members of KIP-848: they join, hear their partitions, own them, commit, leave."""
    group = author.names.groups[3]
    one, three, *_ = author.names.topics

    def beat(slot: str, epoch: Any, *, owns: Any = None, names: Any = None) -> Step:
        version = author.rng.choice((0, 1))
        default = f"{group}-{slot}" if version else ""
        fixed = {
            "group_id": group, "member_id": Ref("member", (group, slot), default),
            "member_epoch": epoch, "instance_id": None, "rack_id": None,
            "rebalance_timeout_ms": 2_000 if names else -1, "subscribed_topic_names": names,
            "subscribed_topic_regex": None, "server_assignor": None, "topic_partitions": owns,
        }  # fmt: skip
        key = apis.CONSUMER_GROUP_HEARTBEAT
        return author.request(key, version, fixed, label=(group, slot), mutations=0)

    def epoch(slot: str, plus: int = 0) -> Ref:
        return Ref("member_epoch", (group, slot), 1, plus)

    names = author.rng.choice(([one], [one, three], [three]))
    yield beat("m1", 0, owns=[], names=names)
    yield beat("m1", epoch("m1"))
    owned = [{"topic_id": Ref("topic_id", names[0], UNKNOWN_ID), "partitions": [0]}]
    yield beat("m1", epoch("m1"), owns=owned)
    me = {"group_id": group, "member_id": Ref("member", (group, "m1"), "")}
    at = topic_fields(names[0])
    commit = {**me, **at, "generation_id_or_member_epoch": epoch("m1"), "group_instance_id": None}
    yield author.request(apis.OFFSET_COMMIT, 9, commit)
    yield author.request(apis.OFFSET_FETCH, 9, {**me, **at, "member_epoch": epoch("m1")})
    yield author.request(apis.CONSUMER_GROUP_DESCRIBE, None, {"group_ids": [group]})
    yield beat("m1", epoch("m1", author.rng.choice((1, 0))))
    yield author.request(apis.DESCRIBE_GROUPS, None, {"groups": [group]})
    yield author.request(apis.LIST_GROUPS, None)
    yield author.request(apis.DELETE_GROUPS, None, {"groups_names": [group]})
    yield beat("m1", author.rng.choice((-1, -2)))
    yield beat("m1", epoch("m1"))
    yield author.request(apis.CONSUMER_GROUP_DESCRIBE, None, {"group_ids": [group]})
    yield author.request(apis.DELETE_GROUPS, None, {"groups_names": [group]})


def topics(author: Author) -> Steps:
    """A topic's life: made, made again, widened, described, deleted, asked for."""
    name = author.names.topics[2]
    where = {"name": name, "topic": name, "topic_id": Ref("topic_id", name, UNKNOWN_ID)}
    make = {"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": []}
    make |= {"configs": [], "timeout_ms": 10_000}
    yield author.request(apis.CREATE_TOPICS, None, make)
    yield author.request(apis.CREATE_TOPICS, 7, {**make, "validate_only": False}, mutations=0)
    yield author.request(apis.METADATA, None, {"topics": [{"topic_id": ZERO_ID,
                                                           "name": name}]})  # fmt: skip
    wider = {**where, "count": author.rng.choice((2, 3, 4)), "assignments": None}
    yield author.request(apis.CREATE_PARTITIONS, None, wider)
    yield author.request(apis.DESCRIBE_TOPIC_PARTITIONS, None, {**where, "topic_name": name})
    yield author.request(apis.ELECT_LEADERS, None, {**where, "partitions": [0]})
    yield author.request(apis.ALTER_PARTITION_REASSIGNMENTS, None, {**where, "replicas": [1]})
    yield author.request(apis.LIST_PARTITION_REASSIGNMENTS, None, where)
    yield author.request(apis.DELETE_TOPICS, None, {**where, "topic_names": [name]})
    yield author.request(apis.METADATA, None)
    yield author.request(apis.DELETE_TOPICS, None, {**where, "topic_names": [name]})
    yield author.request(apis.CREATE_TOPICS, None, make)


def configs(author: Author) -> Steps:
    """Configurations of a topic: set, appended to, unset, described."""
    topic = author.names.topics[0]
    for _ in range(3):
        name, value = author.rng.choice(
            (("retention.ms", "60000"), ("cleanup.policy", "compact"), ("no.such", "1"),
             ("segment.bytes", "1048576"), ("min.insync.replicas", "1"), ("retention.ms", "x"))
        )  # fmt: skip
        change = {"resource_type": 2, "resource_name": topic, "configs.name": name, "value": value}
        key = author.rng.choice((apis.ALTER_CONFIGS, apis.INCREMENTAL_ALTER_CONFIGS))
        yield author.request(key, None, change)
        described = {"resource_type": 2, "resource_name": topic}
        described |= {"configuration_keys": [name], "include_documentation": False}
        yield author.request(apis.DESCRIBE_CONFIGS, None, described)


def quotas_and_users(author: Author) -> Steps:
    """Quotas and SCRAM credentials: set, described, removed."""
    user = author.names.users[0]
    entity = {"entity": [{"entity_type": "user", "entity_name": user}], "validate_only": False}
    yield author.request(apis.ALTER_CLIENT_QUOTAS, None, {**entity, "remove": False})
    component = {"entity_type": "user", "match": user, "match_type": 0}
    yield author.request(apis.DESCRIBE_CLIENT_QUOTAS, None, component)
    yield author.request(apis.ALTER_CLIENT_QUOTAS, None, {**entity, "remove": True})
    yield author.request(apis.DESCRIBE_CLIENT_QUOTAS, None, component)
    mechanism = author.rng.choice((1, 2))
    scram = {"name": user, "deletions": [], "mechanism": mechanism}
    scram["salted_password"] = b"0123456789abcdef" * 2 * mechanism
    yield author.request(apis.ALTER_USER_SCRAM_CREDENTIALS, 0, scram)
    yield author.request(apis.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"name": user})
    gone = {"name": user, "upsertions": [], "mechanism": mechanism}
    yield author.request(apis.ALTER_USER_SCRAM_CREDENTIALS, 0, gone)
    yield author.request(apis.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"name": user})


def acls(author: Author) -> Steps:
    """ACLs: made, found by every kind of filter, deleted."""
    names = author.names
    for _ in range(2):
        kind = author.rng.choice((2, 3))
        name = author.rng.choice((names.topics[0], names.groups[0]))
        rule = {"resource_type": kind, "resource_name": name}
        yield author.request(apis.CREATE_ACLS, None, rule)
        wanted = {
            "resource_type_filter": author.rng.choice((1, kind)), "resource_name_filter": name,
            "operation": 1, "permission_type": 1, "host_filter": None,
        }  # fmt: skip
        yield author.request(apis.DESCRIBE_ACLS, None, wanted)
    yield author.request(apis.DELETE_ACLS, None, wanted)
    yield author.request(apis.DESCRIBE_ACLS, None, {**wanted, "pattern_type_filter": 1})


def offsets(author: Author) -> Steps:
    """Offsets of a group without members: committed, read, deleted, and the group with them."""
    group, topic = author.names.groups[2], author.names.topics[1]
    at = topic_fields(topic, author.rng.choice((0, 1, 2)))
    nobody = {
        "group_id": group, "member_id": "", "generation_id_or_member_epoch": -1,
        "member_epoch": -1, "group_instance_id": None,
    }  # fmt: skip
    yield author.request(apis.FIND_COORDINATOR, None, {"key": group, "coordinator_keys": [group],
                                                       "key_type": 0})  # fmt: skip
    for _ in range(3):
        yield author.request(apis.OFFSET_COMMIT, None, {**nobody, **at})
        yield author.request(apis.OFFSET_FETCH, None, {**nobody, **at})
    yield author.request(apis.OFFSET_FETCH, None, {**nobody, "topics": None})
    yield author.request(apis.DESCRIBE_GROUPS, None, {"groups": [group]})
    yield author.request(apis.OFFSET_DELETE, 0, {**nobody, **at})
    yield author.request(apis.OFFSET_FETCH, None, {**nobody, **at})
    yield author.request(apis.DELETE_GROUPS, None, {"groups_names": [group]})


SCENARIOS: tuple[Callable[[Author], Steps], ...] = (
    records,
    fetch_sessions,
    idempotent,
    transactions,
    classic_group,
    two_members,
    consumer_group,
    topics,
    configs,
    quotas_and_users,
    acls,
    offsets,
)
