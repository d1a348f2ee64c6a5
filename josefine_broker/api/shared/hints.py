"""The current leader, for a client that asked the wrong broker (KIP-951): no Metadata is needed."""

from collections.abc import Iterable

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.context import Context
from josefine_broker.engine.metadata.image import NO_LEADER
from josefine_broker.wire.produce import NodeEndpoint

HINTED = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})


def leader_of(
    ctx: Context, topic: str, index: int, code: ErrorCode
) -> tuple[int, LeaderEpoch] | None:
    """(leader, leader epoch) for an error that another leader explains; None: no hint."""
    if code not in HINTED:
        return None
    entry = ctx.image.partition(topic, index)
    if entry is None or entry.leader == NO_LEADER:
        return None
    if entry.leader == ctx.broker_id and not ctx.cluster.is_heard:
        return None  # do not send it back to a broker that does not know the leader
    return entry.leader, entry.leader_epoch


def node_endpoints(
    ctx: Context, broker_ids: Iterable[int], listener: str
) -> tuple[NodeEndpoint, ...]:
    """Addresses of these brokers for clients of that listener."""
    found = []
    for broker_id in sorted(broker_ids):
        broker = ctx.image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(listener)
        if broker is not None and endpoint is not None:
            found.append(NodeEndpoint(broker_id, endpoint.host, endpoint.port, broker.rack))
    return tuple(found)
