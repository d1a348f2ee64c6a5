"""The codec of metadata changes: Raft payloads from and to change values.

Rules: JSON with a version and a kind, because people read blocks and few are written. A change that
this broker does not know is CorruptData, and its host must stop: skipping it would fork the image.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.quotas import QuotaEntity
from josefine_broker.engine.metadata.changes import (
    AllocateProducerIds,
    AlterAcls,
    AlterCredentials,
    AlterGroupConfig,
    AlterIsr,
    AlterQuotas,
    AlterTopicConfig,
    BrokerState,
    Change,
    CreatePartitions,
    CreateTopic,
    Decision,
    DeleteTopic,
    FeatureLevel,
    IsrItem,
    Origin,
    PartitionState,
    QuotaChange,
    ReassignItem,
    ReassignPartitions,
    RegisterBroker,
    Replicas,
    SetFeatures,
    UnregisterBroker,
    UserCredential,
)
from josefine_broker.engine.metadata.image import (
    COMPLETENESS_LEVEL,
    Address,
    Endpoint,
    FeatureRange,
    acl_from_plain,
    canonical_json,
    credential_from_plain,
    credential_to_plain,
    read_json,
)
from josefine_broker.engine.metadata.log_completeness import Completeness, LogClaims

CHANGE_VERSIONS = (1, COMPLETENESS_LEVEL)
"""Version 2 is written only for a registration that reports the completeness of each log."""


def encode_change(change: Change, origin: Origin) -> bytes:
    """The Raft payload of a change."""
    # A change without a row in the table is an error of this code, so KeyError.
    kind = _KIND_OF[type(change)]
    plain = {
        # The oldest version that can express it: an older broker may read this block.
        "version": CHANGE_VERSIONS[isinstance(change, RegisterBroker) and change.logs is not None],
        "kind": kind.name,
        "origin": list(origin),
        "change": kind.to_plain(change),
    }
    # Canonical: the same change is the same bytes on every broker, and in every test of the chain.
    return canonical_json(plain)


def decode_change(payload: bytes | memoryview) -> tuple[Change, Origin]:
    """The change and its origin. Raises CorruptData for bytes that are not a change, or are from a
    newer broker."""
    plain = read_json(payload, "metadata change")
    version, name = plain.get("version"), plain.get("kind")
    # Not skipped: every broker must apply every committed block, or the images differ for good.
    if version not in CHANGE_VERSIONS:
        raise CorruptData(f"metadata change of version {version}, known are {CHANGE_VERSIONS}")
    kind = _KINDS.get(str(name))
    if kind is None:
        raise CorruptData(f"metadata change of unknown kind {name!r}")
    try:
        broker_id, number = plain["origin"]
        return kind.from_plain(plain["change"]), Origin(broker_id, number)
    # All that a value of another shape raises below: the payload passed Raft's checksum, so it is
    # from another program, not damaged on the way.
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptData(f"metadata change {name!r}: {error!r}") from error


class _Kind(NamedTuple):
    """One row of the table: the name in the payload, and the two directions."""

    name: str
    """In every block of that kind. It never changes: chains on disk have it."""
    change_type: type[Change]
    to_plain: Callable[[Any], dict[str, Any]]
    """To values that JSON has: mappings with text keys, lists, texts, numbers, booleans, null."""
    from_plain: Callable[[dict[str, Any]], Change]
    """The reverse. A value of another shape raises KeyError, TypeError, ValueError or
    AttributeError."""


def _replicas(plain: list[list[int]]) -> Replicas:
    """Broker ids of each partition, the preferred replica first."""
    return tuple(tuple(ids) for ids in plain)


def _pairs(plain: list[list[str]]) -> tuple[tuple[str, str], ...]:
    """JSON has no tuples, and values of the image must be hashable."""
    return tuple((name, value) for name, value in plain)


def _claims_plain(claims: LogClaims) -> dict[str, Any]:
    """Grouped by topic and value, because there may be thousands."""
    logs: dict[str, dict[str, list[int]]] = {}
    for (topic_id, index), found in claims.logs.items():
        logs.setdefault(topic_id.hex, {}).setdefault(found.value, []).append(index)
    return {"default": claims.default.value, "logs": logs}


def _claims(p: dict[str, Any]) -> LogClaims:
    """The reverse of `_claims_plain`. Raises ValueError for a completeness that this broker does
    not know."""
    return LogClaims(
        default=Completeness(p["default"]),
        logs={
            (UUID(topic_id), index): Completeness(value)
            for topic_id, found in p["logs"].items()
            for value, indexes in found.items()
            for index in indexes
        },
    )


def _register_plain(c: RegisterBroker) -> dict[str, Any]:
    """Without `logs` it is the form of version 1, which older brokers can read."""
    logs = {} if c.logs is None else {"logs": _claims_plain(c.logs)}
    return logs | {
        "broker": c.broker_id,
        "incarnation": c.incarnation,
        "endpoints": c.endpoints,
        "rack": c.rack,
        "raft": c.raft,
        "admin": c.admin,
        "features": c.features,
        "clean": c.clean,
        "previous_epoch": c.previous_epoch,
        "known_epoch": c.known_epoch,
    }


def _register_change(p: dict[str, Any]) -> RegisterBroker:
    """A key that is missing is an error, except `logs`: version 1 has none."""
    return RegisterBroker(
        broker_id=p["broker"],
        incarnation=p["incarnation"],
        endpoints=tuple(Endpoint(*each) for each in p["endpoints"]),
        rack=p["rack"],
        raft=None if p["raft"] is None else Address(*p["raft"]),
        admin=p["admin"],
        features=tuple(FeatureRange(*each) for each in p["features"]),
        clean=p["clean"],
        logs=_claims(p["logs"]) if "logs" in p else None,
        previous_epoch=p["previous_epoch"],
        known_epoch=p["known_epoch"],
    )


def _decision_plain(c: Decision) -> dict[str, Any]:
    """Only what differs from the image the controller saw; `reason` is for people who read the
    chain."""
    return {
        "term": c.controller_term,
        "reason": c.reason,
        "brokers": c.brokers,
        "partitions": [[each.topic_id.hex, *each[1:]] for each in c.partitions],
    }


def _decision_change(p: dict[str, Any]) -> Decision:
    """Positions as in `PartitionState`: the topic's id, four numbers, then lists of brokers."""
    # One id for all partitions of a topic: a start decodes blocks of 10,000.
    topic_ids = {text: UUID(text) for text in {each[0] for each in p["partitions"]}}
    return Decision(
        controller_term=p["term"],
        reason=p["reason"],
        brokers=tuple(BrokerState(*each) for each in p["brokers"]),
        partitions=tuple(
            PartitionState(topic_ids[topic_id], *numbers, *map(tuple, lists))
            for topic_id, numbers, lists in ((e[0], e[1:5], e[5:]) for e in p["partitions"])
        ),
    )


def _alter_isr_plain(c: AlterIsr) -> dict[str, Any]:
    """By broker epoch: a proposal of an earlier process of that broker does not count."""
    items = [[item.topic_id.hex, *item[1:]] for item in c.items]
    return {"broker": c.broker_id, "epoch": c.broker_epoch, "items": items}


def _alter_isr_change(p: dict[str, Any]) -> AlterIsr:
    """Positions as in `IsrItem`; the last one has the epochs of the brokers that join (KIP-903)."""
    return AlterIsr(
        broker_id=p["broker"],
        broker_epoch=p["epoch"],
        items=tuple(
            IsrItem(UUID(e[0]), e[1], e[2], e[3], tuple(e[4]), tuple(e[5]), tuple(map(tuple, e[6])))
            for e in p["items"]
        ),
    )


def _reassign_plain(c: ReassignPartitions) -> dict[str, Any]:
    """A target of null cancels the move."""
    return {"items": [[item.topic_id.hex, *item[1:]] for item in c.items]}


def _reassign_change(p: dict[str, Any]) -> ReassignPartitions:
    """A target is the list of replicas to reach, or null (KIP-455)."""
    return ReassignPartitions(
        items=tuple(
            ReassignItem(UUID(topic_id), partition, None if target is None else tuple(target))
            for topic_id, partition, target in p["items"]
        )
    )


def _create_topic_plain(c: CreateTopic) -> dict[str, Any]:
    """With the placement: `apply` never places, so that all brokers agree."""
    return {
        "name": c.name,
        "id": c.topic_id.hex,
        "replicas": c.replicas,
        "config": c.config,
        "offline": c.offline,
    }


def _create_topic_change(p: dict[str, Any]) -> CreateTopic:
    """The topic id comes from the proposer: `apply` has no randomness, or the images would
    differ."""
    return CreateTopic(
        name=p["name"],
        topic_id=UUID(p["id"]),
        replicas=_replicas(p["replicas"]),
        config=_pairs(p["config"]),
        offline=tuple(p["offline"]),
    )


def _create_partitions_plain(c: CreatePartitions) -> dict[str, Any]:
    """`first` is the partition count that the proposer saw: another one refuses the change."""
    return {
        "id": c.topic_id.hex,
        "first": c.first_partition,
        "replicas": c.replicas,
        "offline": c.offline,
    }


def _create_partitions_change(p: dict[str, Any]) -> CreatePartitions:
    """Replicas of the new partitions alone; that of the index `first` is first."""
    return CreatePartitions(
        topic_id=UUID(p["id"]),
        first_partition=p["first"],
        replicas=_replicas(p["replicas"]),
        offline=tuple(p["offline"]),
    )


def _alter_config_plain(c: AlterTopicConfig) -> dict[str, Any]:
    """What is set and what goes back to its default; other keys stay."""
    return {"id": c.topic_id.hex, "assign": c.assign, "remove": c.remove}


def _alter_config_change(p: dict[str, Any]) -> AlterTopicConfig:
    """A key is in one of the two lists; that of `remove` has no value."""
    return AlterTopicConfig(
        topic_id=UUID(p["id"]), assign=_pairs(p["assign"]), remove=tuple(p["remove"])
    )


def _credentials_change(p: dict[str, Any]) -> AlterCredentials:
    """Salted passwords, never plain ones (RFC 5802)."""
    put = map(credential_from_plain, p["put"])
    return AlterCredentials(
        put=tuple(UserCredential(*key, credential) for key, credential in put),
        remove=_pairs(p["remove"]),
    )


# Rows are added, never renamed or taken out: blocks of earlier versions are replayed at every
# start. A new kind is proposed only from its feature level on, because a broker that does not know
# it stops.
_TABLE = (
    _Kind("register_broker", RegisterBroker, _register_plain, _register_change),
    _Kind(
        "unregister_broker",
        UnregisterBroker,
        lambda c: {"broker": c.broker_id},
        lambda p: UnregisterBroker(broker_id=p["broker"]),
    ),
    _Kind("decision", Decision, _decision_plain, _decision_change),
    _Kind("alter_isr", AlterIsr, _alter_isr_plain, _alter_isr_change),
    _Kind("reassign_partitions", ReassignPartitions, _reassign_plain, _reassign_change),
    _Kind(
        "set_features",
        SetFeatures,
        # Each with the level that the proposer saw, so that of two updates one is refused
        # (KIP-584).
        lambda c: {"levels": c.levels},
        lambda p: SetFeatures(levels=tuple(FeatureLevel(*each) for each in p["levels"])),
    ),
    _Kind("create_topic", CreateTopic, _create_topic_plain, _create_topic_change),
    _Kind(
        "delete_topic",
        DeleteTopic,
        # By id: when the block is applied, the name may be that of another topic.
        lambda c: {"id": c.topic_id.hex},
        lambda p: DeleteTopic(topic_id=UUID(p["id"])),
    ),
    _Kind(
        "create_partitions", CreatePartitions, _create_partitions_plain, _create_partitions_change
    ),
    _Kind("alter_topic_config", AlterTopicConfig, _alter_config_plain, _alter_config_change),
    _Kind(
        "allocate_producer_ids",
        AllocateProducerIds,
        # `first` is the next free id that the proposer saw (KIP-730).
        lambda c: {"broker": c.broker_id, "first": c.first_id, "count": c.count},
        lambda p: AllocateProducerIds(broker_id=p["broker"], first_id=p["first"], count=p["count"]),
    ),
    _Kind(
        "alter_acls",
        AlterAcls,
        # A rule is a list of its seven fields: removing one names all of them.
        lambda c: {"add": c.add, "remove": c.remove},
        lambda p: AlterAcls(
            add=tuple(map(acl_from_plain, p["add"])),
            remove=tuple(map(acl_from_plain, p["remove"])),
        ),
    ),
    _Kind(
        "alter_credentials",
        AlterCredentials,
        lambda c: {
            "put": [credential_to_plain(each[:2], each.credential) for each in c.put],
            "remove": c.remove,
        },
        _credentials_change,
    ),
    _Kind(
        "alter_quotas",
        AlterQuotas,
        # A bound of null is removed (KIP-546).
        lambda c: {"quotas": c.quotas},
        lambda p: AlterQuotas(
            quotas=tuple(
                QuotaChange(QuotaEntity(*entity), key, value) for entity, key, value in p["quotas"]
            )
        ),
    ),
    _Kind(
        "alter_group_config",
        AlterGroupConfig,
        lambda c: {"group": c.group_id, "assign": c.assign, "remove": c.remove},
        lambda p: AlterGroupConfig(
            group_id=p["group"],
            assign=tuple((name, value) for name, value in p["assign"]),
            remove=tuple(p["remove"]),
        ),
    ),
)
_KINDS = {kind.name: kind for kind in _TABLE}
"""For decoding, by the name in the payload."""
_KIND_OF = {kind.change_type: kind for kind in _TABLE}
"""For encoding, by the type of the value."""
