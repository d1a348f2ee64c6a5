"""Translations between the parts that `node.py` puts together: configuration to settings, the
handler table to routes. Pure: no part is started here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from josefine_broker.config import BrokerConfig, HostPort, LogSection, ReplicationSection
from josefine_broker.config_values import is_loopback
from josefine_broker.core.changes import RegisterBroker
from josefine_broker.core.controller import ControllerConfig
from josefine_broker.core.features import SUPPORTED
from josefine_broker.core.image import Endpoint, MetadataImage
from josefine_broker.core.log_config import LogConfig, TimestampType
from josefine_broker.core.replica_fetch import FetchLimits
from josefine_broker.core.topic_config import TopicSettings
from josefine_broker.handlers.context import BrokerSettings, Context, RequestInfo
from josefine_broker.handlers.table import Api
from josefine_broker.shell.connection import ConnectionLimits
from josefine_broker.shell.dispatch import Peer, Route
from josefine_broker.shell.metrics import Metrics
from josefine_broker.shell.server import Bound
from josefine_broker.wire.codec import RequestHeader

WILDCARDS = frozenset({"0.0.0.0", "::"})
"""Bound addresses that no client can dial."""


def log_config(section: LogSection) -> LogConfig:
    """The broker's defaults of a partition's log."""
    return LogConfig(
        segment_bytes=section.segment_bytes,
        segment_ms=section.segment_ms,
        segment_records=section.segment_records,
        index_interval_bytes=section.index_interval_bytes,
        retention_ms=section.retention_ms,
        retention_bytes=section.retention_bytes,
        flush_messages=section.flush_messages,
        flush_ms=section.flush_ms,
        message_bytes_max=section.message_bytes_max,
        timestamp_type=TimestampType(section.timestamp_type),
    )


def broker_settings(config: BrokerConfig) -> BrokerSettings:
    """The configuration as far as handlers see it."""
    defaults = config.topic_defaults
    return BrokerSettings(
        auto_create_topics=config.broker.auto_create_topics,
        partitions_max=config.broker.partitions_max,
        default_partitions=defaults.partitions,
        default_replication_factor=defaults.replication_factor,
        topic_defaults=TopicSettings(
            log=log_config(config.log),
            min_insync_replicas=defaults.min_insync_replicas,
            unclean_leader_election=defaults.unclean_leader_election_enable,
        ),
        metadata_timeout_ms=config.raft.proposal_timeout_ms,
        lag_time_max_ms=config.replication.lag_time_max_ms,
        replica_fetch=fetch_limits(config.replication),
    )


def controller_config(config: BrokerConfig) -> ControllerConfig:
    """What the controller needs to know, should this broker become it."""
    return ControllerConfig(
        session_timeout_ms=config.cluster.session_timeout_ms,
        imbalance_check_interval_ms=config.cluster.imbalance_check_interval_ms,
        min_insync_replicas=config.topic_defaults.min_insync_replicas,
        unclean_leader_election=config.topic_defaults.unclean_leader_election_enable,
        voters_max=config.raft.voters_max,
    )


def fetch_limits(section: ReplicationSection) -> FetchLimits:
    """How much a follower asks for at once."""
    return FetchLimits(
        wait_ms=section.fetch_wait_ms,
        bytes_max=section.fetch_bytes_max,
        partition_bytes_max=section.partition_fetch_bytes_max,
        throttle_bytes_per_second=section.throttle_bytes_per_second,
    )


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    """The bounds of each connection."""
    network = config.network
    return ConnectionLimits(
        frame_bytes_max=network.frame_bytes_max,
        in_flight_max=network.in_flight_max,
        write_buffer_bytes=network.write_buffer_bytes,
    )


def registration(
    config: BrokerConfig, bound: Iterable[Bound], this_host: str, admin: str | None
) -> RegisterBroker:
    """What the cluster is told of this broker: per listener the advertised address, else the bound
    one (with `this_host` for a wildcard, which only the binder understands)."""
    named = {listener.name: listener for listener in config.broker.advertised_listeners}
    endpoints = []
    for listener in bound:
        chosen = named.get(listener.name)
        if chosen is not None:
            endpoints.append(Endpoint(listener.name, chosen.host, chosen.port))
        else:
            host = this_host if listener.host in WILDCARDS else listener.host
            endpoints.append(Endpoint(listener.name, host, listener.port))
    return RegisterBroker(
        broker_id=config.broker.id,
        incarnation=uuid.uuid4().hex,
        endpoints=tuple(endpoints),
        rack=config.broker.rack,
        admin=admin,
        features=SUPPORTED,
    )


def initial_voters(config: BrokerConfig) -> list[int]:
    """Who votes in a cluster that begins with this configuration; nobody: it joins one."""
    if config.raft.seeds:
        return []
    return [each.id for each in config.raft.voters] or [config.broker.id]


def other_cluster(config: BrokerConfig, members: Collection[int], image: MetadataImage) -> str:
    """Why this data cannot be of the cluster that the configuration would form; empty: they fit.

    Members change in a cluster's life, and the list in the file gets old. It names another cluster
    where this broker's is it alone, and none of the others it lists ever was in it.
    """
    own = config.broker.id
    others = {each.id for each in config.raft.voters} - {own}
    met = image.brokers.keys() | image.unregistered
    if not others or set(members) != {own} or others & met:
        return ""
    return (
        f"raft.voters names the brokers {_ids({own, *others})}, but the data directory "
        f"{config.broker.data_dir} holds a cluster whose only voter is {own} and that never met "
        "the others: set another broker.data_dir, or leave raft.voters out"
    )


def stored_voters(
    config: BrokerConfig, voters: Collection[int], trouble_with: Callable[[int], str]
) -> str:
    """Whom a broker without a leader waits for, why it does not reach them, and whether its file
    lets one expect that."""
    waits = f"waiting for a majority of the voters {_ids(voters)}"
    known = [(each, trouble_with(each)) for each in sorted(voters)]
    unreached = "; ".join(f"broker {each} at {trouble}" for each, trouble in known if trouble)
    why = f" ({unreached})" if unreached else ""
    if set(voters) > {config.broker.id} == set(initial_voters(config)):
        return (
            f"{waits} of the cluster in {config.broker.data_dir} to elect a leader; "
            f"the configuration (raft.voters) names only this broker{why}"
        )
    return f"{waits} to elect a leader{why}"


def waits_for_controller(leader: int, storage_trouble: str) -> str:
    """Whom a broker waits for that has registered, or is about to. Who cannot write may wait long:
    it asks the controller to lead nothing, as one that stops does."""
    waits = f"waiting for the controller, broker {leader}, to take this broker in"
    return (
        f"{waits}, which it does once this is over: {storage_trouble}" if storage_trouble else waits
    )


def leaving(storage_trouble: str) -> str:
    """Why a broker leads nothing that another could."""
    if storage_trouble:
        return f"this broker hands over and comes back when this is over: {storage_trouble}"
    return "this broker hands over and stops"


def no_controller(voters: Collection[int], there: int) -> str:
    """Why nothing is decided, where so many of the voters are there."""
    return (
        f"no controller: {there} of the voters {_ids(voters)} {'is' if there == 1 else 'are'} there"
    )


def _ids(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))


def raft_address(config: BrokerConfig, bound: Bound, this_host: str) -> HostPort:
    """Where other brokers dial this one: what it advertises, else its line among the voters, else
    the bound address (with `this_host` for a wildcard)."""
    if config.raft.advertised is not None:
        return config.raft.advertised
    if config.own_voter is not None:
        return config.own_voter.address
    return HostPort(this_host if bound.host in WILDCARDS else bound.host, bound.port)


def only_on_this_machine(own: Mapping[str, HostPort], others: Iterable[HostPort]) -> list[str]:
    """What this broker advertises as an address where every machine finds itself, although others
    are elsewhere: one sentence each. `own` is by the key that sets it."""
    elsewhere = next((each for each in others if not is_loopback(each.host)), None)
    if elsewhere is None:
        return []
    return [
        f"{key} is advertised as {address}, which only this machine reaches, and another broker is"
        f" at {elsewhere}: put this machine's name there"
        for key, address in own.items()
        if is_loopback(address.host)
    ]


def named_but_loopback(bound: Iterable[Bound], config: BrokerConfig) -> list[str]:
    """Listeners whose name means a loopback address on this machine, where others are elsewhere."""
    others = [each.address for each in config.raft.voters if each != config.own_voter]
    if all(is_loopback(each.host) for each in (*others, *config.raft.seeds)):
        return []
    return [
        f"{each.name} listens on {each.host}:{each.port}, which is {each.resolved_host} here, so"
        f" only this machine reaches it: mend the name (/etc/hosts) or listen on 0.0.0.0"
        for each in bound
        if is_loopback(each.resolved_host) and not is_loopback(each.host)
    ]


_new = tuple.__new__


def routes(ctx: Context, apis: Iterable[Api], metrics: Metrics) -> dict[int, Route]:
    """The literal handler table with the context bound into each handler."""
    return {
        api.key: Route(
            api.name, api.min_version, api.max_version, _bind(ctx, api), metrics.api(api.name)
        )
        for api in apis
    }


def _bind(ctx: Context, api: Api) -> Callable[[RequestHeader, Peer, Any], Any]:
    handler = api.handler

    def handle(header: RequestHeader, peer: Peer, body: Any) -> Any:
        # As RequestInfo(...), whose generated constructor costs twice as much.
        info = _new(RequestInfo, (header, peer.principal, peer.address, peer.listener))
        return handler(ctx, info, body)

    return handle
