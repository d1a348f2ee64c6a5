"""This broker among the others: Raft with its transport, the controller, its own enrolment, on
asyncio. Decides nothing; what is decided is in raft/, core/ and handlers/.

Rules: after every round of Raft's work, every frame that matters and every due time one `_step`
lets each part look at what is new, in one order: Raft's view, the controller, the enrolment, the
image's readers. A heartbeat to this broker's own controller takes no socket.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from josefine_broker.base.errors import CorruptData, Fatal
from josefine_broker.base.ports import Clock
from josefine_broker.compose import (
    controller_config,
    initial_voters,
    no_controller,
    other_cluster,
    raft_address,
    stored_voters,
    waits_for_controller,
)
from josefine_broker.config import BrokerConfig
from josefine_broker.core.changes import At, RegisterBroker
from josefine_broker.core.controller import Heartbeat
from josefine_broker.core.door import Speech, why_not_payload
from josefine_broker.core.features import raft_format
from josefine_broker.core.image import Address, MetadataImage
from josefine_broker.handlers.blocks import apply_block, replace_image
from josefine_broker.handlers.context import Context
from josefine_broker.handlers.controlling import Controlling
from josefine_broker.handlers.enrolling import DismissedError, Enrolment, Place
from josefine_broker.joining import PROPOSE_TIMEOUT_MS, AskingAround, Joining, propose_for
from josefine_broker.peers import Peers
from josefine_broker.quorum import Quorum
from josefine_broker.shell.alarm import Alarm
from josefine_broker.shell.data_dir import METADATA_DIR
from josefine_broker.shell.heartbeat_frames import (
    decode_answer,
    decode_beat,
    encode_answer,
    encode_beat,
)
from josefine_broker.shell.raft_frames import Frame, FrameError, Hello, Kind, encode_body
from josefine_broker.shell.raft_host import RaftHost, RaftTimings
from josefine_broker.shell.raft_transport import RaftTransport, Reply
from josefine_broker.shell.server import Bound
from raft import Block, CorruptBlock, CorruptStore, Refused, Role

log = logging.getLogger(__name__)

WAIT_NOTICE_SECONDS = 3.0
"""A start that waits this long for the other brokers says so, and when it waits for others."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What the rest of the broker hears from here."""

    on_birth: Callable[[str], None]
    """The cluster's id."""
    on_image: Callable[[], None]
    """The image is another."""
    on_parked: Callable[[], None]
    """Requests may have been parked."""
    on_failed: Callable[[BaseException], None]
    """Why this broker must stop."""


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
        hooks: Hooks,
    ) -> None:
        """`bound` is the raft listener."""
        self._config = config
        self._ctx = ctx
        self._clock = clock
        self._bound = bound
        self._hooks = hooks
        self._stopped = False
        self._moved = asyncio.Event()
        self._alarm = Alarm(clock, self._step)
        self._image: MetadataImage | None = None
        self._enrolment: Enrolment | None = None
        self._joining: Joining | None = None
        self.peers = Peers(
            config,
            ctx,
            address=raft_address(config, bound, socket.gethostname()),
            cluster_id=known_cluster_id,
            members=lambda: self.raft_host.status().members.all,
        )
        self.transport = self._new_transport(rng)
        self._asking = AskingAround(self.transport, config.broker.id, config.raft.seeds)
        self.raft_host = self._new_raft_host(new_cluster_id, rng)
        self.transport.on_refused = self._refused
        self.transport.on_gone = self._peer_gone
        self.raft_host.on_failure = hooks.on_failed
        self.quorum = Quorum(self.raft_host, clock)
        self.controlling = Controlling(ctx, controller_config(config), self.quorum.change_members)
        ctx.quorum = self.quorum
        ctx.why_no_controller = self.why_no_controller

    def _new_transport(self, rng: Random) -> RaftTransport:
        return RaftTransport(
            hello=self.peers.hello,
            book=self.peers.book,
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
            is_known=self.peers.knows,
            on_greeted=self.peers.greeted,
        )

    def _new_raft_host(self, new_cluster_id: str, rng: Random) -> RaftHost:
        raft = self._config.raft
        return RaftHost(
            self._config.broker.data_dir / METADATA_DIR,
            node_id=self._config.broker.id,
            voters=initial_voters(self._config),
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
        """Recover Raft and let the others in.

        Raises CorruptData, DismissedError, OSError, TimeoutError.
        """
        try:
            await self.raft_host.start()
        except CorruptStore as error:
            raise CorruptData(f"metadata: {error}") from error
        status = self.raft_host.status()
        trouble = other_cluster(self._config, status.members.all, self._ctx.image)
        if trouble:
            raise DismissedError(trouble)
        if status.cluster_id:
            self._born(status.cluster_id)
        await self.transport.start(self._bound)

    async def enrol(self, registration: RegisterBroker, say: Say) -> None:
        """Register this process and wait until the controller has unfenced it.

        Raises DismissedError.
        """
        address = self.peers.address
        registration = replace(registration, raft=Address(address.host, address.port))
        for warning in self.peers.introduce(registration):
            say(f"warning: {warning}")
        self._enrolment = Enrolment(
            self._ctx,
            registration,
            heartbeat_ms=self._config.cluster.heartbeat_interval_ms,
            proposal_timeout_ms=self._config.raft.proposal_timeout_ms,
            session_timeout_ms=self._config.cluster.session_timeout_ms,
        )
        self._joining = self._new_joining(registration, self._enrolment)
        loop = asyncio.get_running_loop()
        notice_at = loop.time() + WAIT_NOTICE_SECONDS
        said: set[str] = set()
        while not self._stopped:
            self._step()
            place = self._enrolment.place
            if place is Place.SERVING:
                return
            if place is Place.UNKNOWN and not self._is_voter():
                self._joining.begin()
            self._moved.clear()
            try:
                async with asyncio.timeout_at(notice_at):
                    await self._moved.wait()
            except TimeoutError:
                notice_at += WAIT_NOTICE_SECONDS
                waits = self.describe_wait()
                kind = re.sub("[0-9]+", "", waits)  # other figures are no news
                if kind not in said:
                    said.add(kind)
                    say(waits)

    def _new_joining(self, registration: RegisterBroker, enrolment: Enrolment) -> Joining:
        def refused(reason: str) -> None:
            enrolment.refused(reason)
            self._step()

        return Joining(
            self.transport,
            registration,
            seeds=self._config.raft.seeds,
            is_wanted=lambda: enrolment.place is Place.UNKNOWN,
            is_member=self._is_member,
            on_refused=refused,
        )

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

    def give_way(self) -> None:
        """Periodic: whose disk is full lets another lead Raft, if one is live. Sooner or later a
        write of its own would find no room, and everybody's changes would wait for it."""
        ctx = self._ctx
        if ctx.disk_full and self.raft_host.status().role is Role.LEADER:
            others = set(ctx.image.live_brokers()) - {ctx.broker_id}
            if others:
                self.quorum.hand_over(others)

    async def stop(self) -> None:
        """Stop Raft and close every connection."""
        self._stopped = True
        self._moved.set()
        self._alarm.set(None)
        if self._joining is not None:
            await self._joining.stop()
        await self._asking.stop()
        await self.raft_host.stop()
        await self.transport.stop()
        self.peers.store()

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
            return waits_for_controller(status.leader, self._ctx.storage_trouble)
        if not self._is_member():
            seeds = ", ".join(str(each) for each in self._config.raft.seeds)
            trouble = "" if self._joining is None else self._joining.trouble
            return f"waiting for a cluster to join at {seeds}{f' ({trouble})' if trouble else ''}"
        return stored_voters(self._config, status.members.voters, self.transport.trouble_with)

    def why_no_controller(self) -> str:
        """As a sentence, with the voters that this broker reaches; empty: there is one."""
        status = self.raft_host.status()
        if status.leader is not None:
            return ""
        reached = [
            each
            for each in status.members.voters
            if each == status.node_id or self.transport.is_connected(each)
        ]
        return no_controller(status.members.voters, len(reached))

    # -- what Raft does with this broker

    def _apply(self, block: Block) -> None:
        try:
            apply_block(self._ctx, block.payload, At(*block.id))
        except Fatal as error:
            self._hooks.on_failed(error)
            raise

    def _replace_image(self, data: bytes) -> None:
        try:
            image = MetadataImage.from_bytes(data)
        except CorruptData as error:
            fatal = Fatal(f"a snapshot that this broker cannot read: {error}")
            self._hooks.on_failed(fatal)
            raise fatal from error
        replace_image(self._ctx, image, self.raft_host.status().root.height)

    def _born(self, cluster_id: str) -> None:
        self.peers.cluster_id = cluster_id
        ctx = self._ctx
        if ctx.image.cluster_id != cluster_id:
            ctx.image = replace(ctx.image, cluster_id=cluster_id)
        self._hooks.on_birth(cluster_id)

    # -- the step

    def _step(self) -> None:
        if self._stopped or self.raft_host.failure is not None:
            self._moved.set()
            return
        try:
            self._look_around()
        except DismissedError as error:
            self._hooks.on_failed(error)
        self._moved.set()
        self._hooks.on_parked()
        self._arm()

    def _look_around(self) -> None:
        controlling, enrolment, ctx = self.controlling, self._enrolment, self._ctx
        controlling.raft_moved(self.quorum.view(self.transport.gone))
        if enrolment is not None:
            # Not before the block that names the cluster is committed here: see peers.py.
            can_propose = bool(self.peers.cluster_id) and self._is_member()
            beat = enrolment.step(can_propose=can_propose)
            if beat is not None:
                self._send_beat(beat, enrolment)
        controlling.step()
        if ctx.image is not self._image:
            if self._image is None or ctx.image.brokers is not self._image.brokers:
                self.peers.learn_from_image()
            self._image = ctx.image
            self.raft_host.speak(raft_format(ctx.image.features))
            self._hooks.on_image()

    def _send_beat(self, beat: Heartbeat, enrolment: Enrolment) -> None:
        controller = self._ctx.controller_id
        if controller == self._ctx.broker_id:
            enrolment.answered(self.controlling.heard(beat))
        else:
            self.transport.send(controller, Kind.HEARTBEAT, encode_beat(beat))

    def _arm(self) -> None:
        """For whatever is due first."""
        times = [self.controlling.wake_at_ms()]
        if self._enrolment is not None:
            times.append(self._enrolment.wake_at_ms())
        if not self._stopped:
            self._alarm.set(min((each for each in times if each is not None), default=None))

    def _is_member(self) -> bool:
        return self._ctx.broker_id in self.raft_host.status().members.all

    def _is_voter(self) -> bool:
        return self._ctx.broker_id in self.raft_host.status().members.voters

    # -- what the transport asks and tells

    def _admit(self, peer: Hello) -> str | None:
        status = self.raft_host.status()
        reason = self.peers.why_not(
            peer,
            elsewhere=self.transport.address_of(peer.node_id),
            voters=status.members.voters,
            missing=self._missing_voters(peer.node_id),
        )
        holds_nothing = not peer.cluster_id and peer.node_id in status.members.learners
        if reason is None and holds_nothing and status.role is Role.LEADER:
            self.raft_host.forget_progress(peer.node_id)  # it lost what it had, perhaps
        return reason

    def _missing_voters(self, lost: int) -> list[int]:
        """Without a controller: the other voters that are not there."""
        status = self.raft_host.status()
        if status.leader is not None:
            return []
        others = status.members.voters - {lost, status.node_id}
        return [each for each in others if not self.transport.is_connected(each)]

    def _peer_gone(self) -> None:
        for peer in self.transport.gone():
            self.raft_host.peer_gone(peer)
        self._step()

    def _refused(self, _peer: int, reason: str) -> None:
        sentence = self.peers.must_stop(reason)
        if sentence:
            self._hooks.on_failed(DismissedError(sentence))

    def _take_message(self, peer: Hello, frame: Frame, _reply: Reply) -> None:
        def why_not(sender: int, payload: bytes | None) -> str | None:
            self._ask_about(peer)
            self.peers.check(peer, Speech.RAFT, sender)
            return None if payload is None else why_not_payload(payload)

        try:
            self.raft_host.receive_bytes(frame.body, why_not)
        except CorruptBlock as error:
            raise FrameError(
                f"broker {peer.node_id} sent an impossible message: {error}"
            ) from error

    def _ask_about(self, peer: Hello) -> None:
        """Members may have changed while this broker was away: the frame is refused, but who says
        that it is of this cluster may be known in a moment."""
        is_of_ours = peer.cluster_id and peer.cluster_id == self.peers.cluster_id
        if is_of_ours and not self.peers.knows(peer.node_id):
            self._asking.begin()

    def _take_beat(self, peer: Hello, frame: Frame, reply: Reply) -> None:
        beat = decode_beat(frame)
        self.peers.check(peer, Speech.HEARTBEAT, beat.broker_id)
        reply(Kind.HEARTBEAT_ANSWER, encode_answer(self.controlling.heard(beat)))
        self._step()

    def _take_answer(self, peer: Hello, frame: Frame, _reply: Reply) -> None:
        self.peers.check(peer, Speech.HEARTBEAT_ANSWER)
        answer = decode_answer(frame)
        if self._enrolment is not None and peer.node_id == self._ctx.controller_id:
            self._enrolment.answered(answer)
            self._step()

    def _take_discover(self, peer: Hello, _frame: Frame, reply: Reply) -> None:
        self.peers.check(peer, Speech.DISCOVER)
        found = self.peers.discovered(self.raft_host.status().leader)
        reply(Kind.DISCOVERED, found.encode())

    def _take_propose(self, peer: Hello, frame: Frame, reply: Reply) -> None:
        self.peers.check(peer, Speech.PROPOSE)
        deadline_ms = self._clock.monotonic_ms() + PROPOSE_TIMEOUT_MS

        def answer(body: bytes) -> None:
            reply(Kind.PROPOSE_ANSWER, body)

        try:
            propose_for(
                self.raft_host,
                lambda: self._ctx.image,
                peer.node_id,
                frame.body,
                deadline_ms,
                answer,
            )
        except Refused as error:
            answer(encode_body({"failed": str(error)}))
