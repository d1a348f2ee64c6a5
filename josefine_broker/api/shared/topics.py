"""Code shared by handlers of topics: names, new topics, brokers as clients see them.

Topic names follow Kafka's rule: 1 to 249 of a-z A-Z 0-9 `.` `_` `-`, not `.` or `..`; no
two may differ only in `.` and `_`, because metric names merge them.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.controller.placement import check_assignment, place
from josefine_broker.engine.metadata.changes import CreateTopic, Replicas
from josefine_broker.engine.metadata.image import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    BrokerEntry,
    Endpoint,
    MetadataImage,
)
from josefine_broker.engine.metadata.mirror_configs import MIRROR_SOURCE, mirrored_id
from josefine_broker.engine.metadata.partition_limit import PartitionLimit
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.metadata.topic_config import check_configs
from josefine_broker.engine.proposing import submit_change

_NAME = re.compile(r"[a-zA-Z0-9._-]+")

TOPIC_NAME_CHARS_MAX = 249
"""Kafka's rule: a directory name `topic-partition` must fit a file system's 255 bytes."""

COORDINATORS_TOPIC_CONFIG = (
    ("cleanup.policy", "compact"),
    ("compression.type", "producer"),
    ("segment.bytes", str(100 * 1024 * 1024)),
)
"""Like Kafka's: a broker's default compression is not meant for single offset commits."""

LISTED_MS = 3_000
"""Metadata lists a broker for this long after it was fenced. librdkafka drops a broker that is no
longer listed, and then treats the partitions it led as leaderless, although the same answer names
their new leader: it refreshes a second later (measured: a producer's gap of 1.5 to 2.2 s; with this
0.4 to 1.0 s). Not longer, because a hung broker that was fenced should be dropped."""

ALL_TOPIC_OPERATIONS = 3576
ALL_GROUP_OPERATIONS = 3400
ALL_CLUSTER_OPERATIONS = 8096
"""Bit fields of KIP-430: every operation there is. With access control those of the client."""


def check_name(name: str) -> None:
    """Raises KafkaError(invalid_topic_exception)."""
    if name in (".", ".."):
        raise KafkaError(ErrorCode.invalid_topic_exception, "a topic cannot be named '.' or '..'")
    if len(name) > TOPIC_NAME_CHARS_MAX or not _NAME.fullmatch(name):
        raise KafkaError(
            ErrorCode.invalid_topic_exception,
            f"a topic name is 1 to {TOPIC_NAME_CHARS_MAX} of a-z A-Z 0-9 . _ -, not '{name[:260]}'",
        )


class NewNames:
    """The topic names that one request creates, checked against existing ones."""

    __slots__ = ("_by_unified", "_image")

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._by_unified: dict[str, str] | None = None

    def take(self, name: str) -> None:
        """Raises KafkaError(topic_already_exists | invalid_topic_exception)."""
        check_name(name)
        if name in self._image.topics:
            raise KafkaError(ErrorCode.topic_already_exists, f"topic '{name}' already exists")
        if "." not in name and "_" not in name:
            return  # only this very name becomes this one
        if self._by_unified is None:
            self._by_unified = {_unified(each): each for each in self._image.topics}
        there = self._by_unified.setdefault(_unified(name), name)
        if there != name:
            raise KafkaError(
                ErrorCode.invalid_topic_exception,
                f"topic '{name}' collides with topic '{there}': choose a name that differs in more "
                "than '.' and '_', for metrics call both the same",
            )


def _unified(name: str) -> str:
    return name.replace(".", "_")


def check_not_internal(name: str) -> None:
    """Raises KafkaError with Kafka's codes for operations that clients may not do on the brokers'
    own topics."""
    if name == METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.invalid_request, f"'{name}' is the name of the cluster's metadata"
        )
    if name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.invalid_topic_exception, f"'{name}' is the broker's own topic")


def new_topic(
    ctx: Context,
    name: str,
    names: NewNames,
    limit: PartitionLimit,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    assignment: dict[int, tuple[int, ...]] | None = None,
    config: Iterable[tuple[str, str | None]] = (),
) -> CreateTopic:
    """The change that creates a topic; -1 means the broker's default (KIP-464).

    Raises KafkaError naming the invalid part of the request.
    """
    names.take(name)
    pairs = check_configs(config, ctx.settings.topic_defaults)
    live = live_racks(ctx)
    if assignment:
        if partitions != -1 or replication_factor != -1:
            raise KafkaError(
                ErrorCode.invalid_request, "a manual assignment excludes counts: both must be -1"
            )
        replicas = check_assignment(ctx.image.brokers, live, assignment)
    else:
        settings = ctx.settings
        # A random start spreads the leaders of topics with one partition over the brokers.
        replicas = place(
            live,
            settings.default_partitions if partitions == -1 else partitions,
            settings.default_replication_factor if replication_factor == -1 else replication_factor,
            start=ctx.ports.rng.getrandbits(16),
            away=away_racks(ctx),
        )
    limit.take(replicas)
    return CreateTopic(
        name=name,
        topic_id=_topic_id(ctx, pairs),
        replicas=replicas,
        config=pairs,
        offline=offline_among(live, replicas),
    )


def _topic_id(ctx: Context, config: Iterable[tuple[str, str]]) -> UUID:
    """A new id; for a mirror that of its source, by which checkpoints know their topics. Raises
    KafkaError if a broker is away: it may still have the log of a deleted mirror with that id."""
    found = mirrored_id(dict(config).get(MIRROR_SOURCE, ""))
    if found is None:
        return UUID(int=ctx.ports.rng.getrandbits(128), version=4)
    away = away_racks(ctx)
    if away:
        raise KafkaError(
            ErrorCode.policy_violation,
            f"broker {min(away)} is away, and may have the log of a deleted mirror with the same "
            "topic id: start it, or unregister it",
        )
    return found


def live_racks(ctx: Context) -> Mapping[int, str | None]:
    """The brokers that new replicas are placed on, each with its rack."""
    return {key: broker.rack for key, broker in ctx.image.brokers.items() if broker.is_live}


def away_racks(ctx: Context) -> Mapping[int, str | None]:
    """The other registered brokers: they get new replicas only if there are too few live ones."""
    return {key: broker.rack for key, broker in ctx.image.brokers.items() if not broker.is_live}


def offline_among(live: Collection[int], replicas: Replicas) -> tuple[int, ...]:
    """Replicas that are not live, chosen by a person or for lack of others: initially not in
    sync."""
    return tuple(sorted({each for ids in replicas for each in ids if each not in live}))


def submit_offsets_topic(ctx: Context, deadline_ms: int) -> list[Proposal]:
    """The change that creates `__consumer_offsets`; none if it exists."""
    return _submit_internal(ctx, OFFSETS_TOPIC, ctx.settings.offsets.partitions, deadline_ms)


def submit_transactions_topic(ctx: Context, deadline_ms: int) -> list[Proposal]:
    """The change that creates `__transaction_state`; none if it exists."""
    partitions = ctx.settings.offsets.transactions.partitions
    return _submit_internal(ctx, TRANSACTIONS_TOPIC, partitions, deadline_ms)


def submit_share_state_topic(ctx: Context, deadline_ms: int) -> list[Proposal]:
    """The change that creates `__share_group_state`; none if it exists."""
    partitions = ctx.settings.offsets.partitions
    return _submit_internal(ctx, SHARE_STATE_TOPIC, partitions, deadline_ms)


def _submit_internal(ctx: Context, name: str, partitions: int, deadline_ms: int) -> list[Proposal]:
    if name in ctx.image.topics:
        return []
    change = new_topic(
        ctx,
        name,
        NewNames(ctx.image),
        ctx.partition_limit(),
        partitions=partitions,
        config=COORDINATORS_TOPIC_CONFIG,
    )
    return [submit_change(ctx, change, deadline_ms)]


def reachable_brokers(
    ctx: Context, listener: str, *, with_fenced: bool = False
) -> Sequence[tuple[BrokerEntry, Endpoint]]:
    """The brokers with the client's listener, and where it dials them.

    One that is shutting down is included: it serves until its leaderships have moved.
    """
    brokers = (ctx.image.brokers[broker_id] for broker_id in sorted(ctx.image.brokers))
    found = (
        (broker, broker.endpoint(listener))
        for broker in brokers
        if with_fenced or not broker.fenced
    )
    return [(broker, endpoint) for broker, endpoint in found if endpoint is not None]


def just_fenced_brokers(
    ctx: Context, listener: str, reachable: Collection[int]
) -> Sequence[tuple[BrokerEntry, Endpoint]]:
    """Brokers fenced a moment ago, listed after the others in Metadata. They lead nothing; see
    LISTED_MS."""
    now_ms = ctx.clock.monotonic_ms()
    return [
        (broker, endpoint)
        for broker, endpoint in reachable_brokers(ctx, listener, with_fenced=True)
        if broker.broker_id not in reachable
        and now_ms - ctx.metadata.fenced_ms.get(broker.broker_id, -LISTED_MS) < LISTED_MS
    ]
