"""Messages of other brokers and their handlers: one row of `HEARS` per kind of message.

Rules: a message is authorized (`cluster/admission.py`) before it changes anything. One that its
sender may not send, or that violates the protocol, raises FrameError, and the connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from josefine_broker.base.ports import Clock
from josefine_broker.engine import events as e
from josefine_broker.engine.cluster.admission import Speech, why_not_payload
from josefine_broker.engine.cluster.enrolment import Enrolment
from josefine_broker.engine.cluster.frames import FrameError, Hello
from josefine_broker.engine.cluster.joining import (
    PROPOSE_TIMEOUT_MS,
    for_level,
    proposed,
    unproposed,
)
from josefine_broker.engine.cluster.messages import (
    Discover,
    Discovered,
    ProposeAnswer,
    ProposeChange,
    kind_of,
)
from josefine_broker.engine.cluster.peers import Peers
from josefine_broker.engine.context import Context
from josefine_broker.engine.controller.controller import Heartbeat, HeartbeatAnswer
from josefine_broker.engine.metadata_quorum.controller_host import Controlling
from josefine_broker.engine.metadata_quorum.quorum import Quorum
from josefine_broker.engine.outbox import Outbox
from raft import CorruptBlock, Message, Refused, Result
from raft.messages import Propose


class Hearing:
    """The message handlers of one broker."""

    def __init__(
        self,
        ctx: Context,
        quorum: Quorum,
        controlling: Controlling,
        peers: Peers,
        outbox: Outbox,
        clock: Clock,
    ) -> None:
        self.enrolment: Enrolment | None = None
        """The enrolment that receives the controller's answers, once there is one."""
        self.met_born = False
        """A peer that this broker dialed belongs to a cluster, which is also this broker's if its
        configuration would form one. Peers that dial in may claim any cluster, and do not count."""
        self.met_unknown = False
        """A peer of this cluster was refused because this broker does not know it (yet)."""
        self._ctx = ctx
        self._quorum = quorum
        self._controlling = controlling
        self._peers = peers
        self._outbox = outbox
        self._clock = clock

    def greeted(self, peer: Hello, *, was_dialed: bool) -> None:
        """A peer has introduced itself and was admitted."""
        self._peers.greeted(peer, was_dialed=was_dialed)
        self.met_born |= was_dialed and bool(peer.cluster_id)
        if not peer.cluster_id and peer.node_id in self._quorum.node.members.learners:
            self._quorum.forget_progress(peer.node_id)  # it may have lost its data

    def heard(self, event: e.Heard) -> None:
        """Handle a message. Raises FrameError."""
        hear = HEARS.get(type(event.said), Hearing._message)
        hear(self, event.peer, event.said, event.reply_to)

    def _message(self, peer: Hello, message: Message, _reply_to: object) -> None:
        """Give a message to Raft. A proposal is decoded here first: in the chain, one that cannot
        be read would stop every broker."""
        if self._peers.is_of_ours_but_unknown(peer):
            self.met_unknown = True  # the frame is refused; its sender may become known soon
        self._peers.check(peer.node_id, Speech.RAFT, message.sender)
        try:
            if isinstance(message, Propose):
                reason = why_not_payload(message.payload)
                if reason is not None:
                    raise CorruptBlock(reason)
            self._quorum.step(message, self._clock.monotonic_ms())
        except CorruptBlock as error:
            raise FrameError(
                f"broker {peer.node_id} sent an impossible message: {error}"
            ) from error

    def _beat(self, peer: Hello, beat: Heartbeat, reply_to: object) -> None:
        """As the controller, note that a broker is alive. Its invitation ends first, if it was
        removed."""
        self._peers.beats(peer.node_id, beat.broker_epoch)
        self._peers.check(peer.node_id, Speech.HEARTBEAT, beat.broker_id)
        self._outbox.reply(reply_to, self._controlling.heard(beat))

    def _beat_answer(self, peer: Hello, answer: HeartbeatAnswer, _reply_to: object) -> None:
        """An answer of a former controller is ignored: it may report as alive what its successor
        has fenced."""
        self._peers.check(peer.node_id, Speech.HEARTBEAT_ANSWER, None)
        if self.enrolment is not None and peer.node_id == self._ctx.cluster.controller_id:
            self.enrolment.answered(answer)

    def _discover(self, peer: Hello, _said: Discover, reply_to: object) -> None:
        """Any member answers, also one that knows no leader at the moment."""
        self._peers.check(peer.node_id, Speech.DISCOVER, None)
        self._outbox.reply(reply_to, self._peers.discovered(self._quorum.node.leader))

    def _propose(self, peer: Hello, said: ProposeChange, reply_to: object) -> None:
        """As the leader, propose a newcomer's registration and answer with the result."""
        self._peers.check(peer.node_id, Speech.PROPOSE, None)
        quorum, own_id = self._quorum, self._ctx.broker_id
        members = quorum.node.members

        def answer(answer: ProposeAnswer) -> None:
            self._outbox.reply(reply_to, answer)

        # Not forwarded: the newcomer asks the next address, and learns the leader there.
        if quorum.node.leader != own_id:
            answer(ProposeAnswer(failed=f"broker {own_id} is not the leader"))
            return
        image = self._ctx.image
        without = unproposed(image, members.voters, own_id, peer, said.change)
        if without is not None:
            answer(without)
            return
        if peer.node_id in members.learners:  # it was a member before and lost its data
            quorum.forget_progress(peer.node_id)

        def ended(result: Result) -> None:
            answer(proposed(self._ctx.image, said.change, result))

        deadline_ms = self._clock.monotonic_ms() + PROPOSE_TIMEOUT_MS
        try:
            quorum.propose_once(for_level(image, said.change), deadline_ms, ended)
        except Refused as error:
            answer(ProposeAnswer(failed=str(error)))

    def _unasked(self, peer: Hello, said: Discovered | ProposeAnswer, _reply_to: object) -> None:
        """Answers belong to a request on a connection of their own. Raises FrameError."""
        kind = kind_of(said).name
        raise FrameError(f"broker {peer.node_id} sent an unexpected {kind} frame")


HEARS: dict[type, Callable[[Hearing, Hello, Any, object], None]] = {
    Heartbeat: Hearing._beat,
    HeartbeatAnswer: Hearing._beat_answer,
    Discover: Hearing._discover,
    ProposeChange: Hearing._propose,
    Discovered: Hearing._unasked,
    ProposeAnswer: Hearing._unasked,
}
"""Every other message belongs to Raft."""
