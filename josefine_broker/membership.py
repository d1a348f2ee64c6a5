"""This broker among the others: Raft with its transport, the controller, its own enrolment, on
asyncio. Decides nothing; what is decided is in raft/, core/ and handlers/.

Rules: after every round of Raft's work, every frame that matters and every due time one `_step`
lets each part look at what is new, in one order: Raft's view, the controller, the enrolment, the
image's readers. A heartbeat to this broker's own controller takes no socket.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from random import Random

from josefine_broker.base.errors import CorruptData, Fatal
from josefine_broker.base.ports import Clock
from josefine_broker.compose import WILDCARDS, controller_config
from josefine_broker.config import BrokerConfig, HostPort
from josefine_broker.core.change_codec import encode_change
from josefine_broker.core.changes import At, Origin, RegisterBroker
from josefine_broker.core.controller import Heartbeat
from josefine_broker.core.image import Address, MetadataImage
from josefine_broker.handlers.blocks import apply_block, replace_image
from josefine_broker.handlers.context import Context
from josefine_broker.handlers.controlling import Controlling
from josefine_broker.handlers.enrolling import DismissedError, Enrolment, Place
from josefine_broker.joining import (
    PROPOSE_TIMEOUT_MS,
    Discovered,
    RefusedError,
    ask_to_join,
    forgotten,
    propose_for,
    show_up,
)
from josefine_broker.quorum import Quorum
from josefine_broker.shell.address_book import BOOK_FILE, AddressBook
from josefine_broker.shell.heartbeat_frames import (
    decode_answer,
    decode_beat,
    encode_answer,
    encode_beat,
)
from josefine_broker.shell.raft_connection import PeerError
from josefine_broker.shell.raft_frames import Frame, FrameError, Hello, Kind
from josefine_broker.shell.raft_host import RaftHost, RaftTimings
from josefine_broker.shell.raft_transport import RaftTransport, Reply
from josefine_broker.shell.server import Bound
from raft import Block, CorruptBlock, CorruptStore, Role

log = logging.getLogger(__name__)

JOIN_RETRY_SECONDS = 0.5
WAIT_NOTICE_SECONDS = 3.0
"""A start that waits this long for the other brokers says so."""

Say = Callable[[str], None]


class Membership:
    """`start`, `enrol`; `leave`, `stop`. One per process, on one event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        ctx: Context,
        *,
        clock: Clock,
        rng: Random,
        bound: Bound,
        new_cluster_id: str,
        known_cluster_id: str,
        on_birth: Callable[[str], None],
        on_image: Callable[[], None],
        on_parked: Callable[[], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        """`bound` is the raft listener. `on_birth` hears the cluster's id, `on_image` that the
        image is another, `on_parked` that requests may have been parked, `on_failed` why this
        broker must stop."""
        self._config = config
        self._ctx = ctx
        self._clock = clock
        self._bound = bound
        self._cluster_id = known_cluster_id
        self._on_birth = on_birth
        self._on_image = on_image
        self._on_parked = on_parked
        self._on_failed = on_failed
        self._stopped = False
        self._moved = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._image: MetadataImage | None = None
        self._enrolment: Enrolment | None = None
        self._joining: asyncio.Task[None] | None = None
        self._registration: RegisterBroker | None = None
        self.address = self._own_address()
        self.transport = self._new_transport(rng)
        self.raft_host = self._new_raft_host(new_cluster_id, rng)
        self.transport.on_refused = self._refused
        self.transport.on_gone = self._step
        self.raft_host.on_failure = on_failed
        self.quorum = Quorum(self.raft_host, clock)
        self.controlling = Controlling(ctx, controller_config(config), self.quorum.change_members)
        ctx.quorum = self.quorum

    def _new_transport(self, rng: Random) -> RaftTransport:
        book = AddressBook(self._config.broker.data_dir / BOOK_FILE)
        for voter in self._config.raft.voters:
            book.learn(voter.id, voter.address)
        book.load()
        return RaftTransport(
            hello=self._hello,
            book=book,
            rng=rng,
            handlers={
                Kind.RAFT: self._take_message,
                Kind.HEARTBEAT: self._take_beat,
                Kind.HEARTBEAT_ANSWER: self._take_answer,
                Kind.DISCOVER: self._take_discover,
                Kind.PROPOSE: self._take_propose,
            },
            timeout_ms=max(2 * self._config.raft.election_timeout_ms, 1_000),
            queue_bytes_max=self._config.cluster.peer_queue_bytes_max,
            admit=self._admit,
        )

    def _new_raft_host(self, new_cluster_id: str, rng: Random) -> RaftHost:
        raft = self._config.raft
        return RaftHost(
            self._config.broker.data_dir / "raft",
            node_id=self._config.broker.id,
            voters=self._initial_voters(),
            cluster_id=new_cluster_id,
            clock=self._clock,
            rng=rng,
            on_block=self._apply,
            on_snapshot=self._replace_image,
            take_snapshot=lambda: self._ctx.image.to_bytes(),
            snapshot_blocks=raft.snapshot_blocks,
            snapshot_bytes=raft.snapshot_bytes,
            send=lambda to, data: self.transport.send(to, Kind.RAFT, data),
            on_birth=self._born,
            on_progress=self._step,
            timings=RaftTimings(
                heartbeat_ms=raft.heartbeat_timeout_ms,
                election_timeout_ms=raft.election_timeout_ms,
            ),
        )

    # -- life

    async def start(self) -> None:
        """Recover Raft and let the others in. Raises CorruptData, OSError, TimeoutError."""
        try:
            await self.raft_host.start()
        except CorruptStore as error:
            raise CorruptData(f"metadata: {error}") from error
        cluster_id = self.raft_host.status().cluster_id
        if cluster_id:
            self._born(cluster_id)
        await self.transport.start(self._bound)

    async def enrol(self, registration: RegisterBroker, say: Say) -> None:
        """Register this process and wait until the controller has unfenced it.

        Raises DismissedError.
        """
        self._registration = replace(
            registration, raft=Address(self.address.host, self.address.port)
        )
        self._enrolment = Enrolment(
            self._ctx,
            self._registration,
            heartbeat_ms=self._config.cluster.heartbeat_interval_ms,
            proposal_timeout_ms=self._config.raft.proposal_timeout_ms,
            session_timeout_ms=self._config.cluster.session_timeout_ms,
        )
        loop = asyncio.get_running_loop()
        notice_at: float | None = loop.time() + WAIT_NOTICE_SECONDS
        while not self._stopped:
            self._step()
            place = self._enrolment.place
            if place is Place.SERVING:
                return
            if place is Place.UNKNOWN and self._joining is None and not self._is_voter():
                self._joining = loop.create_task(self._join())
            self._moved.clear()
            try:
                async with asyncio.timeout_at(notice_at):
                    await self._moved.wait()
            except TimeoutError:
                say(self.describe_wait())
                notice_at = None

    @property
    def broker_epoch(self) -> int:
        return self._ctx.broker_epoch

    async def leave(self, timeout_s: float) -> None:
        """Hand leaderships to other brokers, and Raft's to another voter, as far as time allows."""
        enrolment = self._enrolment
        if enrolment is None or self._ctx.image.live_brokers() <= {self._ctx.broker_id}:
            return
        enrolment.leave()
        try:
            async with asyncio.timeout(timeout_s):
                await self._until(lambda: enrolment.place in (Place.LEFT, Place.DISMISSED))
                self.quorum.hand_over(self._ctx.image.live_brokers())
                await self._until(lambda: self.raft_host.status().role is not Role.LEADER)
        except TimeoutError:
            log.warning("stops before everything was handed over")

    async def stop(self) -> None:
        """Stop Raft and close every connection."""
        self._stopped = True
        self._moved.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._joining is not None:
            self._joining.cancel()
            await asyncio.gather(self._joining, return_exceptions=True)
        await self.raft_host.stop()
        await self.transport.stop()
        self._store_book()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not self._stopped:
            self._step()
            if is_so():
                return
            self._moved.clear()
            await self._moved.wait()

    def describe_wait(self) -> str:
        """What this broker waits for before it serves, as a sentence."""
        status = self.raft_host.status()
        if status.leader is not None:
            return f"waiting for the controller, broker {status.leader}, to take this broker in"
        if not self._is_member():
            seeds = ", ".join(str(each) for each in self._config.raft.seeds)
            return f"waiting for a cluster to join at {seeds}"
        voters = ", ".join(str(each) for each in sorted(status.members.voters))
        return f"waiting for a majority of the voters {voters} to elect a leader"

    # -- what Raft does with this broker

    def _apply(self, block: Block) -> None:
        try:
            apply_block(self._ctx, block.payload, At(*block.id))
        except Fatal as error:
            self._on_failed(error)
            raise

    def _replace_image(self, data: bytes) -> None:
        try:
            image = MetadataImage.from_bytes(data)
        except CorruptData as error:
            fatal = Fatal(f"a snapshot that this broker cannot read: {error}")
            self._on_failed(fatal)
            raise fatal from error
        replace_image(self._ctx, image, self.raft_host.status().root.height)

    def _born(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        ctx = self._ctx
        if ctx.image.cluster_id != cluster_id:
            ctx.image = replace(ctx.image, cluster_id=cluster_id)
        self._on_birth(cluster_id)

    # -- the step

    def _step(self) -> None:
        if self._stopped or self.raft_host.failure is not None:
            self._moved.set()
            return
        try:
            self._look_around()
        except DismissedError as error:
            self._on_failed(error)
        self._moved.set()
        self._on_parked()
        self._arm()

    def _look_around(self) -> None:
        controlling, enrolment, ctx = self.controlling, self._enrolment, self._ctx
        controlling.raft_moved(self.quorum.view(self.transport.gone))
        if enrolment is not None:
            # Not before we hold the block that names the cluster: see `_admit`.
            can_propose = bool(self._cluster_id) and self._is_member()
            beat = enrolment.step(can_propose=can_propose)
            if beat is not None:
                self._send_beat(beat, enrolment)
        controlling.step()
        if ctx.image is not self._image:
            if self._image is None or ctx.image.brokers is not self._image.brokers:
                self._learn_addresses()
            self._image = ctx.image
            self._on_image()

    def _send_beat(self, beat: Heartbeat, enrolment: Enrolment) -> None:
        controller = self._ctx.controller_id
        if controller == self._ctx.broker_id:
            enrolment.answered(self.controlling.heard(beat))
        else:
            self.transport.send(controller, Kind.HEARTBEAT, encode_beat(beat))

    def _arm(self) -> None:
        """One timer, for whatever is due first."""
        times = [self.controlling.wake_at_ms()]
        if self._enrolment is not None:
            times.append(self._enrolment.wake_at_ms())
        wake_ms = min((each for each in times if each is not None), default=None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wake_ms is not None and not self._stopped:
            delay_ms = max(1, wake_ms - self._clock.monotonic_ms())
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(delay_ms / 1_000, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._step()

    def _is_member(self) -> bool:
        return self._ctx.broker_id in self.raft_host.status().members.all

    def _is_voter(self) -> bool:
        return self._ctx.broker_id in self.raft_host.status().members.voters

    # -- who is where

    def _initial_voters(self) -> list[int]:
        raft = self._config.raft
        if raft.seeds:
            return []
        return [each.id for each in raft.voters] or [self._config.broker.id]

    def _own_address(self) -> HostPort:
        raft = self._config.raft
        if raft.advertised is not None:
            return raft.advertised
        if self._config.own_voter is not None:
            return self._config.own_voter.address
        host = socket.gethostname() if self._bound.host in WILDCARDS else self._bound.host
        return HostPort(host, self._bound.port)

    def _learn_addresses(self) -> None:
        for broker in self._ctx.image.brokers.values():
            if broker.raft is not None and broker.broker_id != self._ctx.broker_id:
                address = HostPort(broker.raft.host, broker.raft.port)
                self.transport.book.learn(broker.broker_id, address)
        self._store_book()

    def _store_book(self) -> None:
        try:
            self.transport.book.store()
        except OSError as error:
            log.warning("address book not stored", extra={"reason": error})

    def _hello(self, to: int) -> Hello:
        return Hello(
            node_id=self._ctx.broker_id,
            to=to,
            cluster_id=self._cluster_id,
            address=str(self.address),
        )

    def _admit(self, peer: Hello) -> str | None:
        """Why this peer is not taken, beyond what the greeting itself shows; None: it is.

        A broker registers only when it holds the block that names the cluster: a voter that once
        did and now names none has lost its data, and with it its votes and promises.
        """
        elsewhere = self.transport.address_of(peer.node_id)
        if elsewhere and elsewhere != peer.address:
            return f"broker {peer.node_id} is connected already, from {elsewhere}"
        known = self._ctx.image.brokers.get(peer.node_id)
        is_voter = self._cluster_id and peer.node_id in self.raft_host.status().members.voters
        if known is not None and is_voter and not peer.cluster_id:
            return forgotten(peer.node_id)
        return None

    def _refused(self, _peer: int, reason: str) -> None:
        if not self._cluster_id and forgotten(self._ctx.broker_id) in reason:
            self._on_failed(DismissedError(forgotten(self._ctx.broker_id)))

    # -- joining

    async def _join(self) -> None:
        """Ask until a leader has proposed our registration; the image tells that it worked.

        A member that does not vote only shows itself: nobody hears from it otherwise, and the
        leader may look for it where it was before.
        """
        assert self._registration is not None
        assert self._enrolment is not None
        body = encode_change(self._registration, Origin(self._ctx.broker_id, 0))
        while not self._stopped and self._enrolment.place is Place.UNKNOWN:
            known = tuple(self.transport.book.newest().values())
            addresses = dict.fromkeys((*self._config.raft.seeds, *known))
            try:
                await self._ask_around(tuple(addresses), body)
            except RefusedError as error:
                self._enrolment.refused(str(error))
                self._step()
                return
            except (PeerError, FrameError) as error:
                log.info("not joined yet", extra={"reason": error})
            await asyncio.sleep(JOIN_RETRY_SECONDS)

    async def _ask_around(self, addresses: tuple[HostPort, ...], body: bytes) -> None:
        if self._is_member():
            await show_up(self.transport, addresses)
            return
        found = await ask_to_join(self.transport, addresses, body)
        for node, address in found.addresses.items():
            if node != self._ctx.broker_id:
                self.transport.book.learn(node, address)

    # -- frames

    def _take_message(self, _peer: Hello, frame: Frame, _reply: Reply) -> None:
        try:
            self.raft_host.receive_bytes(frame.body)
        except CorruptBlock as error:
            raise FrameError(str(error)) from error

    def _take_beat(self, _peer: Hello, frame: Frame, reply: Reply) -> None:
        answer = self.controlling.heard(decode_beat(frame))
        reply(Kind.HEARTBEAT_ANSWER, encode_answer(answer))
        self._step()

    def _take_answer(self, _peer: Hello, frame: Frame, _reply: Reply) -> None:
        if self._enrolment is not None:
            self._enrolment.answered(decode_answer(frame))
            self._step()

    def _take_discover(self, _peer: Hello, _frame: Frame, reply: Reply) -> None:
        addresses = {**self.transport.book.newest(), self._ctx.broker_id: self.address}
        leader = self.raft_host.status().leader
        found = Discovered(
            cluster_id=self._cluster_id,
            leader=-1 if leader is None else leader,
            addresses=addresses,
        )
        reply(Kind.DISCOVERED, found.encode())

    def _take_propose(self, _peer: Hello, frame: Frame, reply: Reply) -> None:
        deadline_ms = self._clock.monotonic_ms() + PROPOSE_TIMEOUT_MS
        propose_for(
            self.raft_host,
            lambda: self._ctx.image,
            frame.body,
            deadline_ms,
            lambda body: reply(Kind.PROPOSE_ANSWER, body),
        )
