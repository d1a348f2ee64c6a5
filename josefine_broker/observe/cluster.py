"""`/cluster` and `/cluster/chain`: this broker's view of its cluster, as JSON. Reads only.

Each broker reports its own view. Two views agree when their images, at the same height of the
chain,
have the same digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.broker import Broker
from josefine_broker.engine.cluster.enrolment import Place
from josefine_broker.engine.context import Context
from josefine_broker.engine.metadata.change_codec import decode_change
from josefine_broker.engine.metadata.change_words import describe_change
from josefine_broker.engine.metadata.image import (
    NO_LEADER,
    BrokerEntry,
    MetadataImage,
    PartitionEntry,
    TopicEntry,
)
from josefine_broker.engine.metadata_quorum.quorum import KnownBlock, Quorum
from josefine_broker.engine.ports import QuorumMember

CHAIN_BLOCKS = 200
"""Default number of blocks: the newest."""
CHAIN_BLOCKS_MAX = 10_000


def place_of(ctx: Context) -> Place:
    """The state of this process in its own image."""
    entry = ctx.image.brokers.get(ctx.broker_id)
    if entry is None or entry.incarnation != ctx.cluster.incarnation:
        return Place.UNKNOWN
    if entry.shutting_down:
        return Place.LEAVING
    return Place.FENCED if entry.fenced else Place.SERVING


def partitions_of(image: MetadataImage) -> Iterator[tuple[TopicEntry, int, PartitionEntry]]:
    """Every partition of the image with its topic and index."""
    for name in sorted(image.topics):
        topic = image.topics[name]
        for index, partition in enumerate(topic.partitions):
            yield topic, index, partition


def is_under_replicated(partition: PartitionEntry) -> bool:
    """Fewer replicas in sync than required; those that a reassignment adds do not count yet."""
    present = [each for each in partition.replicas if each not in partition.adding]
    return sum(each in partition.isr for each in present) < len(present)


def cluster_view(broker: Broker) -> dict[str, Any]:
    """The body of `/cluster`."""
    ctx = broker.ctx
    image, place = ctx.image, place_of(ctx)
    partitions = [_partition(*each) for each in partitions_of(image)]
    waits = place in (Place.UNKNOWN, Place.FENCED)
    return {
        "broker_id": ctx.broker_id,
        "cluster_id": image.cluster_id,
        "place": place.value,
        "waits_for": broker.describe_wait() if waits else None,
        "storage_trouble": ctx.storage.trouble,  # it leads nothing while there is one
        "controller": ctx.cluster.controller_id,
        "raft": _raft(broker.quorum),
        "image": {
            "height": broker.quorum.applied.height,
            "digest": image.digest(),  # equal on brokers at the same height
        },
        "features": dict(image.features),
        "brokers": [_broker(image.brokers[key]) for key in sorted(image.brokers)],
        "counts": {
            "brokers": len(image.brokers),
            "live": len(image.live_brokers()),
            "topics": len(image.topics),
            "partitions": len(partitions),
            "under_replicated": sum(each["under_replicated"] for each in partitions),
            "offline": sum(each["leader"] == NO_LEADER for each in partitions),
            "reassigning": sum(bool(each["adding"] or each["removing"]) for each in partitions),
        },
        "partitions": partitions,
    }


def _raft(raft: Quorum) -> dict[str, Any]:
    status, quorum = raft.status(), raft.describe()

    def member(each: QuorumMember) -> dict[str, Any]:
        known = each.log_end_height >= 0
        return {"id": each.broker_id, "height": each.log_end_height if known else None}

    return {
        "role": status.role.name.lower(),
        "term": status.term,
        "format": status.format,
        "leader": -1 if status.leader is None else status.leader,
        "commit": status.commit.height,
        "applied": status.applied.height,
        "head": status.head.height,
        "root": status.root.height,
        "voters": [member(each) for each in quorum.voters],
        "observers": [member(each) for each in quorum.observers],
    }


def _broker(broker: BrokerEntry) -> dict[str, Any]:
    return {
        "id": broker.broker_id,
        "fenced": broker.fenced,
        "shutting_down": broker.shutting_down,
        "unclean": broker.unclean,
        "epoch": broker.epoch,
        "rack": broker.rack,
        "endpoints": {each.listener: _address(each.host, each.port) for each in broker.endpoints},
        "raft": None if broker.raft is None else _address(*broker.raft),
        "admin": broker.admin,
    }


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _partition(topic: TopicEntry, index: int, partition: PartitionEntry) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partition": index,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "adding": list(partition.adding),
        "removing": list(partition.removing),
        "elr": list(partition.elr),
        "doubts": {str(each.broker_id): each.completeness.value for each in partition.doubts},
        "under_replicated": is_under_replicated(partition),
    }


def chain_view(broker: Broker, query: Mapping[str, str]) -> dict[str, Any]:
    """The body of `/cluster/chain?last=N`: the newest known blocks, the lowest first.

    Raises ValueError with a sentence for an invalid query.
    """
    last = _last(query)
    ctx, quorum = broker.ctx, broker.quorum
    status = quorum.status()
    names = {topic_id.hex: name for topic_id, name in ctx.image.topic_names.items()}
    newest = list(islice(quorum.known_blocks(), last))
    return {
        "broker_id": ctx.broker_id,
        "cluster_id": ctx.image.cluster_id,
        "root": str(status.root),
        "commit": str(status.commit),
        "applied": str(status.applied),
        "head": str(status.head),
        "blocks": [_block(each, status.applied.height, names) for each in reversed(newest)],
    }


def _last(query: Mapping[str, str]) -> int:
    text = query.get("last", str(CHAIN_BLOCKS))
    if not text.isdecimal() or not 0 < int(text) <= CHAIN_BLOCKS_MAX:
        raise ValueError(f"last={text}: expected a number from 1 to {CHAIN_BLOCKS_MAX}")
    return int(text)


def _block(known: KnownBlock, applied_height: int, names: Mapping[str, str]) -> dict[str, Any]:
    block = known.block
    return {
        "id": str(block.id),
        "parent": str(block.parent),
        "kind": block.kind.name.lower(),
        "size": len(block.payload),
        "what": _what(block.kind.name, block.payload, names),
        "committed": known.committed,
        "applied": known.committed and block.id.height <= applied_height,
        "dead": known.dead,
    }


def _what(kind: str, payload: bytes, names: Mapping[str, str]) -> str:
    if kind == "EMPTY":
        return "a new leader's first block"
    if kind == "BIRTH":
        return "birth of the cluster"
    if kind == "CONFIG":
        return "members of the Raft change"
    try:
        change, _ = decode_change(payload)
    except CorruptData as error:
        return str(error)
    return describe_change(change, names)
