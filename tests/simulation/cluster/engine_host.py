"""Hosts the engine in virtual time: what host/engine_host.py does with asyncio and files.

The broker, its chain's block file and the frames are the real ones.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.addresses import HostPort
from josefine_broker.engine import events as e
from josefine_broker.engine.broker import Broker, EngineConfig
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.context import BrokerSettings, OffsetsSettings
from josefine_broker.engine.controller.controller import ControllerConfig
from josefine_broker.engine.groups.share.config import ShareConfig, StartAt
from josefine_broker.engine.groups.share.values import Limits
from josefine_broker.engine.groups.values import GroupSettings
from josefine_broker.engine.metadata.changes import At
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.metadata_quorum.quorum import SnapshotLimits
from josefine_broker.engine.partition.replica_fetch import FetchLimits
from josefine_broker.engine.transactions.values import TransactionSettings
from raft import BlockFile, Config, NodeId, StoreFull
from tests.simulation.cluster.group_names import (
    CONSUMER_BEAT_MS,
    CONSUMER_SESSION_MS,
    SHARE_DELIVERIES_MAX,
    SHARE_LOCK_MS,
    SHARE_LOCKS_MAX,
)
from tests.simulation.cluster.peer_port import PeerPort

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["LAG_TIME_MS", "EngineHost"]

LAG_TIME_MS = 800
GROUPS = GroupSettings(
    initial_rebalance_delay_ms=150,
    session_timeout_min_ms=100,
    consumer_session_timeout_ms=CONSUMER_SESSION_MS,
    consumer_heartbeat_interval_ms=CONSUMER_BEAT_MS,
    upgrades_classic=True,
    downgrades_consumer=True,
    share=ShareConfig(
        Limits(SHARE_LOCK_MS, SHARE_DELIVERIES_MAX, SHARE_LOCKS_MAX),
        StartAt.EARLIEST,
    ),
)
TRANSACTIONS = TransactionSettings(partitions=2, id_expiration_ms=6_000, two_phase_enable=True)
OFFSETS = OffsetsSettings(partitions=2, timeout_ms=700, groups=GROUPS, transactions=TRANSACTIONS)
HASTY_SHARES = GROUPS.share._replace(limits=GROUPS.share.limits._replace(repeat_ms=0))
HASTY = replace(OFFSETS, groups=replace(GROUPS, share=HASTY_SHARES))
"""Refuses the answers of members at the first write of a share state that fails, as others do
after some time: every other broker, so that both happens in each life."""
SESSION_TIMEOUT_MS = 1_200
RAFT_HEARTBEAT_MS = 80
ELECTION_TIMEOUT_MS = 400
SNAPSHOT_BLOCKS = 15
TAIL_BLOCKS = 2
CONTROLLER = ControllerConfig(
    session_timeout_ms=SESSION_TIMEOUT_MS, imbalance_check_interval_ms=3_000, voters_max=9
)
SETTINGS = BrokerSettings(
    auto_create_topics=False,
    metadata_timeout_ms=1_500,
    replica_fetch=FetchLimits(
        wait_ms=300, partition_bytes_max=2_000, backoff_ms=50, lag_time_max_ms=LAG_TIME_MS
    ),
)


class _Watched(Broker):
    """Tells the world of every block that is applied."""

    def __init__(self, process: Process, *args: EngineConfig, **more: object) -> None:
        self._process = process
        super().__init__(*args, **more)  # type: ignore[arg-type]

    def applied(self, at: At, payload: bytes | None) -> None:
        work = self.quorum.in_hand
        assert work is not None
        if payload is None and work.batch is not None and work.batch.snapshot is not None:
            self._process.world.met["snapshot installed"] += 1  # not its own, at a start
        self._process.applied(at, payload)


class EngineHost:
    """One per process."""

    def __init__(
        self, process: Process, voters: tuple[int, ...], seeds: tuple[HostPort, ...]
    ) -> None:
        """`voters` form a cluster; who has `seeds` joins one."""
        machine, view = process.machine, process.world.view
        self._process = process
        self._wake_ms: int | None = None
        self.store, recovered = BlockFile.open(
            machine.raft_disk, NodeId(machine.id), segment_bytes=16_384
        )
        self.peers = PeerPort(process)
        book = AddressBook()
        for id_ in voters:
            book.learn(id_, process.world.address_of(id_))
        if machine.book:
            book.take(machine.book)
        self.broker: Broker = _Watched(
            process,
            EngineConfig(
                raft=Config(
                    node_id=NodeId(machine.id),
                    initial_voters=() if seeds else tuple(NodeId(each) for each in voters),
                    cluster_id=f"proposed by {machine.id}",
                    format=1,
                    heartbeat_ms=RAFT_HEARTBEAT_MS,
                    election_timeout_ms=ELECTION_TIMEOUT_MS,
                    snapshot_chunk_bytes=1_024,
                    tail_blocks_max=TAIL_BLOCKS,
                ),
                snapshots=SnapshotLimits(blocks=SNAPSHOT_BLOCKS),
                settings=replace(
                    SETTINGS,
                    default_replication_factor=min(3, len(process.world.founder_ids)),
                    topic_defaults=TopicSettings(min_insync_replicas=view.min_isr_default),
                    offsets=OFFSETS if machine.id % 2 else HASTY,
                ),
                controller=replace(
                    CONTROLLER,
                    unclean_leader_election=view.unclean_default,
                    min_insync_replicas=view.min_isr_default,
                ),
                address=machine.address,
                seeds=seeds,
                named_voters=frozenset(voters),
                cluster_id=machine.cluster_id,
                heartbeat_ms=200,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                proposal_timeout_ms=1_000,
            ),
            recovered=recovered,
            book=book,
            clock=machine.clock,
            rng=Random(machine.rng.getrandbits(64)),
            logs=process.hosting,
            reach=self.peers,
            on_work=process.touch,
        )

    def pump(self) -> None:
        """As `host.engine_host.EngineHost._pump`: once for all that came."""
        process, broker = self._process, self.broker
        led = broker.controlling.leads
        broker.tick(process.clock.monotonic_ms())
        ready = broker.ready()
        if broker.failure is not None:
            process.failed(broker.failure)
            return
        process.world.view.see_voters(broker.quorum.node)
        met = process.world.met
        if broker.controlling.leads and not led:
            met["controller changed"] += 1
            term = broker.quorum.node.term
            process.world.scheduler.note(f"controller {process.machine.id} term {term}")
        self._do(ready)
        self._plan_tick()

    def _do(self, ready: e.Ready) -> None:
        process, machine = self._process, self._process.machine
        if ready.belongs_to:
            cluster_id = machine.cluster_id = machine.cluster_id or ready.belongs_to
            assert cluster_id == ready.belongs_to, f"{machine.id} belongs to {cluster_id}"
        if ready.store is not None:
            self._write(ready.store)
        for send in ready.sends:
            self.peers.send(send)
        for reply in ready.replies:
            self.peers.reply(reply)
        for ask in ready.asks:
            self.peers.ask(ask)
        if ready.image_changed:
            process.touches_links = True
        if ready.book_changed:
            machine.book = self.broker.peers.book.to_bytes()
        for notice in ready.notices:
            process.world.met[notice.message] += 1

    def _write(self, work: e.Store) -> None:
        process = self._process
        process.touch()
        try:
            self.store.append(work.batch)
        except StoreFull as error:
            process.world.met["metadata found no room"] += 1
            self.broker.step(e.FoundNoRoom(str(error)))
            return
        if work.sync_apart:
            self.broker.step(e.Appended())
        if work.batch.must_sync:
            delay_ms = 1 + process.world.dice(3) + process.machine.disk.delay_ms()
            process.after_ms(delay_ms, partial(self._synced, work))
        else:
            self._stored(work)

    def _synced(self, work: e.Store) -> None:
        process = self._process
        process.touch()
        self.store.sync()
        node = self.broker.quorum.node
        is_birth = node.leader == process.machine.id and node.chain.commit.height == 0
        if not (is_birth and process.world.breaks_birth(process)):
            self._stored(work)

    def _stored(self, work: e.Store) -> None:
        if not work.sync_apart:
            self.broker.step(e.Appended())
        self.broker.step(e.Synced())

    def _plan_tick(self) -> None:
        wake_ms = self.broker.wake_at_ms()
        if wake_ms is None or (self._wake_ms is not None and self._wake_ms <= wake_ms):
            return  # an earlier one is planned, and plans the next
        self._wake_ms = wake_ms
        process = self._process
        delay_ms = process.clock.delay_ms(wake_ms) + process.world.dice(3)
        process.after_ms(delay_ms, partial(self._tick, wake_ms))

    def _tick(self, wake_ms: int) -> None:
        if self._wake_ms == wake_ms:
            self._wake_ms = None
            self._process.touch()
