"""Brokers on the real host: an event loop, a directory each, the raft listener on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.ports import Clock
from josefine_broker.engine.broker import Broker, EngineConfig
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.cluster.enrolment import Place
from josefine_broker.engine.cluster.frames import Frame, Hello
from josefine_broker.engine.cluster.messages import encode_said
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.controller.controller import ControllerConfig
from josefine_broker.engine.metadata.change_codec import decode_change, encode_change
from josefine_broker.engine.metadata.changes import Change, CreateTopic, Origin, RegisterBroker
from josefine_broker.engine.metadata.features import SUPPORTED
from josefine_broker.engine.metadata.image import Endpoint
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.metadata_quorum.quorum import SnapshotLimits
from josefine_broker.engine.proposing import submit_change
from josefine_broker.host.clock import RealClock
from josefine_broker.host.engine_host import EngineHost, Hooks
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.net.server import Bound, bind
from josefine_broker.host.replica_manager import Hosting
from raft import GENESIS, BlockFile, Config, DiskFiles, NodeId, Result, State, Term
from raft.messages import VoteRequest
from tests.simulation.memory_files import MemoryFiles

CLOCK = RealClock()
OTHERS_ARE_AWAY = {1: HostPort("127.0.0.1", 1), 2: HostPort("127.0.0.1", 2)}
DEADLINE_MS = 10_000


class Hosted:
    """One life of a broker and its host. Its logs are in memory: this is not about them."""

    def __init__(
        self,
        directory: Path,
        broker_id: int = 1,
        *,
        voters: dict[int, HostPort] | None = None,
        seeds: tuple[HostPort, ...] = (),
        cluster_id: str = "",
        bound: Bound | None = None,
        snapshots: SnapshotLimits | None = None,
        session_timeout_ms: int = 5_000,
        clock: Clock = CLOCK,
    ) -> None:
        """`voters` form a cluster: this broker alone if nobody is named, nobody where it has
        `seeds`."""
        self.id = broker_id
        self.bound = bound
        self.noted: list[str] = []
        """What it was told to note of its cluster."""
        self.failures: list[BaseException] = []
        self.said: list[str] = []
        self.registered_at: list[Place] = []
        """Where it stood when the host was told that it is registered."""
        book = AddressBook()
        for id_, address in (voters or {}).items():
            book.learn(id_, address)
        named = [] if seeds else [*(voters or {broker_id: None})]
        self.address = HostPort("127.0.0.1", 1 if bound is None else bound.port)
        self.host = EngineHost(
            EngineConfig(
                raft=Config(
                    node_id=NodeId(broker_id),
                    initial_voters=tuple(NodeId(each) for each in named),
                    cluster_id=f"named-by-{broker_id}",
                    format=1,
                    heartbeat_ms=20,
                    election_timeout_ms=100,
                ),
                snapshots=snapshots or SnapshotLimits(),
                settings=BrokerSettings(auto_create_topics=False),
                controller=ControllerConfig(session_timeout_ms=session_timeout_ms),
                address=self.address,
                seeds=seeds,
                cluster_id=cluster_id,
                heartbeat_ms=50,
                session_timeout_ms=session_timeout_ms,
                proposal_timeout_ms=5_000,
            ),
            data_dir=directory,
            metadata_dir=directory / "raft",
            clock=clock,
            rng=Random(broker_id),
            logs=Hosting(LogManager(MemoryFiles()), clock),
            peer_timeout_ms=1_000,
            peer_queue_bytes_max=1_000_000,
            book=book,
            on_belongs=self.noted.append,
        )

    @property
    def broker(self) -> Broker:
        return self.host.broker

    @property
    def store(self) -> Any:
        """The block file, for a disk that misbehaves."""
        return self.host._store

    async def start(self) -> Hosted:
        await self.host.open()
        await self.run()
        return self

    async def run(self) -> None:
        """After `open`."""
        await self.host.start(Hooks(on_failed=self.failures.append), self.bound)

    async def enrol(self) -> None:
        register = RegisterBroker(
            broker_id=self.id,
            incarnation=f"{self.id} at {CLOCK.monotonic_ms()}",
            endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 9092),),
            features=SUPPORTED,
        )
        await self.host.enrol(
            register, self.said.append, lambda: self.registered_at.append(self.broker.place)
        )

    def submit(self, change: Change) -> asyncio.Future[Proposal]:
        """The change as handlers ask for it; ends when it took effect here, or was refused."""
        future = asyncio.get_running_loop().create_future()
        proposal = submit_change(self.broker.ctx, change, CLOCK.monotonic_ms() + DEADLINE_MS)
        proposal.on_settled = lambda: future.set_result(proposal)
        return future

    def propose(
        self,
        change: Change,
        on_end: Callable[[], None] = lambda: None,
        *,
        timeout_ms: int = DEADLINE_MS,
    ) -> asyncio.Future[Result]:
        """A block with it; ends as Raft's proposal does, with `on_end` at that very moment."""
        future = asyncio.get_running_loop().create_future()

        def ended(result: Result) -> None:
            on_end()
            future.set_result(result)

        payload = encode_change(change, Origin(99, 1))
        self.broker.quorum.propose_once(payload, CLOCK.monotonic_ms() + timeout_ms, ended)
        return future

    def hears_vote_request(self, term: int) -> None:
        """From broker 2, as it would come by the listener."""
        kind, body = encode_said(
            VoteRequest(
                sender=NodeId(2),
                to=NodeId(self.id),
                term=Term(term),
                cluster_id="",
                head=GENESIS,
                pre=False,
                forced=True,
            )
        )
        peer = Hello(node_id=2, to=self.id, cluster_id="", address="")
        self.host._take(peer, Frame(kind, body), lambda _kind, _body: None)

    @property
    def topics(self) -> list[str]:
        return [*self.broker.ctx.image.topics]


@asynccontextmanager
async def running(directory: Path, **more: Any) -> AsyncIterator[Hosted]:
    """A broker that is started, and stopped at the end."""
    hosted = Hosted(directory, **more)
    try:
        yield await hosted.start()
    finally:
        await hosted.host.stop()


@asynccontextmanager
async def serving(directory: Path, **more: Any) -> AsyncIterator[Hosted]:
    """One that is registered, too."""
    async with running(directory, **more) as hosted:
        await hosted.enrol()
        yield hosted


def listener() -> Bound:
    return bind("raft", "127.0.0.1", 0)


def address_of(bound: Bound) -> HostPort:
    return HostPort("127.0.0.1", bound.port)


def chain_of(directory: Path) -> tuple[list[str], State]:
    """The topics whose creation is on the way to its head, and what else is kept."""
    store, recovered = BlockFile.open(DiskFiles(directory), NodeId(1))
    store.close()
    names = []
    id_, blocks = recovered.state.head, {block.id: block for block in recovered.blocks}
    while id_ in blocks:
        block = blocks[id_]
        if block.payload.startswith(b'{"change"'):
            change = decode_change(block.payload)[0]
            names += [change.name] if isinstance(change, CreateTopic) else []
        id_ = block.parent
    return names, recovered.state
