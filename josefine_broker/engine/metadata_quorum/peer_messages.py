"""What other brokers say, and what this one does about it: one row of `HEARS` per kind of word.

Rules: a word is checked at the door before it changes anything; one that its speaker may not say,
or that nobody who keeps the rules says, raises FrameError, and its connection ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from josefine_broker.base.ports import Clock
from josefine_broker.engine import events as e
from josefine_broker.engine.cluster.admission import Speech, why_not_payload
from josefine_broker.engine.cluster.enrolment import Enrolment
from josefine_broker.engine.cluster.frames import FrameError, Hello
from josefine_broker.engine.cluster.joining import PROPOSE_TIMEOUT_MS, proposed, why_not_proposed
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
    """One per broker, over its parts."""

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
        """Who waits for the controller's answers, once there is somebody."""
        self.met_born = False
        """Somebody whom this broker dialed is of a cluster, which is this broker's if it forms one
        by its configuration. Who dials may name any, and is not believed."""
        self.met_unknown = False
        """Somebody of this cluster was refused, because this broker does not know it (yet)."""
        self._ctx = ctx
        self._quorum = quorum
        self._controlling = controlling
        self._peers = peers
        self._outbox = outbox
        self._clock = clock

    def greeted(self, peer: Hello, *, was_dialed: bool) -> None:
        """A peer introduced itself, and was let in."""
        self._peers.greeted(peer, was_dialed=was_dialed)
        self.met_born |= was_dialed and bool(peer.cluster_id)
        if not peer.cluster_id and peer.node_id in self._quorum.node.members.learners:
            self._quorum.forget_progress(peer.node_id)  # it lost what it had, perhaps

    def heard(self, event: e.Heard) -> None:
        """Raises FrameError."""
        hear = HEARS.get(type(event.said), Hearing._message)
        hear(self, event.peer, event.said, event.reply_to)

    def _message(self, peer: Hello, message: Message, _reply_to: object) -> None:
        if self._peers.is_of_ours_but_unknown(peer):
            self.met_unknown = True  # the frame is refused; who it is may be known soon
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
        self._peers.beats(peer.node_id, beat.broker_epoch)
        self._peers.check(peer.node_id, Speech.HEARTBEAT, beat.broker_id)
        self._outbox.reply(reply_to, self._controlling.heard(beat))

    def _beat_answer(self, peer: Hello, answer: HeartbeatAnswer, _reply_to: object) -> None:
        self._peers.check(peer.node_id, Speech.HEARTBEAT_ANSWER, None)
        if self.enrolment is not None and peer.node_id == self._ctx.cluster.controller_id:
            self.enrolment.answered(answer)

    def _discover(self, peer: Hello, _said: Discover, reply_to: object) -> None:
        self._peers.check(peer.node_id, Speech.DISCOVER, None)
        self._outbox.reply(reply_to, self._peers.discovered(self._quorum.node.leader))

    def _propose(self, peer: Hello, said: ProposeChange, reply_to: object) -> None:
        """As the leader: propose the registration of a newcomer, and answer what came of it."""
        self._peers.check(peer.node_id, Speech.PROPOSE, None)
        quorum, own_id = self._quorum, self._ctx.broker_id
        members = quorum.node.members

        def answer(answer: ProposeAnswer) -> None:
            self._outbox.reply(reply_to, answer)

        if quorum.node.leader != own_id:
            answer(ProposeAnswer(failed=f"broker {own_id} does not lead"))
            return
        image = self._ctx.image
        reason = why_not_proposed(image, members.voters, own_id, peer.node_id, said.change)
        if reason:
            answer(ProposeAnswer(refused=reason))
            return
        if peer.node_id in members.learners:  # it was here before, and lost what it had
            quorum.forget_progress(peer.node_id)

        def ended(result: Result) -> None:
            answer(proposed(self._ctx.image, said.change, result))

        deadline_ms = self._clock.monotonic_ms() + PROPOSE_TIMEOUT_MS
        try:
            quorum.propose_once(said.change, deadline_ms, ended)
        except Refused as error:
            answer(ProposeAnswer(failed=str(error)))

    def _unasked(self, peer: Hello, said: Discovered | ProposeAnswer, _reply_to: object) -> None:
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
"""Everything else is a message of Raft's."""
