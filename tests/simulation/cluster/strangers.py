"""Frames that nobody may send, at the door of a simulated broker: the real door must refuse each.

They are made from messages that were really on the way, so that only the door can tell: in the name
of somebody else, of a node that is no member, in a far term. Dice of its own: lives without
strangers stay as they were.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.engine.cluster.frames import FrameError, Hello
from josefine_broker.engine.controller.controller import Heartbeat
from josefine_broker.engine.events import Heard
from raft import Message, NodeId, Term
from raft.messages import Append, Propose, VoteRequest

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process
    from tests.simulation.cluster.world import World

__all__ = ["STRANGER", "Strangers"]

STRANGER = 77
KEPT_MAX = 20
"""Messages of the recent past that strangers know."""


class Strangers:
    """Mutable: what they overheard."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._overheard: deque[Message] = deque(maxlen=KEPT_MAX)
        self._kinds: tuple[Callable[[Process, Message], None], ...] = (
            self._as_itself,
            self._in_anothers_name,
            self._leads,
            self._forces_a_vote,
            self._proposes,
            self._beats,
        )

    def overhear(self, message: Message) -> None:
        self._overheard.append(message)

    def act(self, per_second: float, every_ms: int) -> None:
        """Maybe one of them says something now, to any broker."""
        if self._rng.random() >= per_second * every_ms / 1_000 or not self._overheard:
            return
        message = self._rng.choice(self._overheard)
        say = self._rng.choice(self._kinds)
        target = self._rng.choice(self._world.broker_ids)
        hear = partial(self._say, say, replace(message, to=NodeId(target)))
        self._world.scheduler.at(1 + self._rng.randrange(20), partial(self._arrive, target, hear))

    def _arrive(self, target: int, hear: Callable[[Process], None]) -> None:
        self._world.to_broker(target, hear)

    def _say(
        self, say: Callable[[Process, Message], None], message: Message, process: Process
    ) -> None:
        core = process.engine.broker.quorum.node._core
        before = core.durable(), core.role, core.leader, core.candidacy.due_ms
        say(process, message)
        after = core.durable(), core.role, core.leader, core.candidacy.due_ms
        assert before == after, f"a stranger's {message} moved {process.machine.id}"

    def _send(self, process: Process, peer: int, said: Message | Heartbeat) -> None:
        """Who introduced itself as `peer` says this."""
        hello = Hello(node_id=peer, to=process.machine.id, cluster_id="", address="")
        try:
            process.engine.broker.step(Heard(hello, said))
        except FrameError:
            process.world.met["stranger's frame refused"] += 1
        else:
            raise AssertionError(f"{process.machine.id} took {said} from {peer}")

    def _as_itself(self, process: Process, message: Message) -> None:
        self._send(process, STRANGER, replace(message, sender=NodeId(STRANGER)))

    def _in_anothers_name(self, process: Process, message: Message) -> None:
        """A stranger's, or that of a member whose memory is damaged."""
        others = [each for each in (*self._world.broker_ids, STRANGER) if each != message.sender]
        self._send(process, self._rng.choice(others), message)

    def _leads(self, process: Process, _message: Message) -> None:
        """The frame that ended a broker."""
        core = process.engine.broker.quorum.node._core
        commit = core.chain.commit
        claim = Append(
            sender=NodeId(STRANGER), to=core.id, term=core.term, parent=commit, blocks=(),
            commit=commit, round=0, cluster_id=core.history.cluster_id,
        )  # fmt: skip
        self._send(process, STRANGER, claim)

    def _forces_a_vote(self, process: Process, message: Message) -> None:
        core = process.engine.broker.quorum.node._core
        request = VoteRequest(
            sender=NodeId(STRANGER), to=core.id, term=Term(core.term + 1_000), pre=False,
            forced=True, head=core.chain.head, cluster_id=message.cluster_id,
        )  # fmt: skip
        self._send(process, STRANGER, request)

    def _proposes(self, process: Process, message: Message) -> None:
        """A member's change that cannot be applied, too: it would stop every broker."""
        core = process.engine.broker.quorum.node._core
        sender = self._rng.choice((message.sender, NodeId(STRANGER)))
        proposal = Propose(
            sender=sender, to=core.id, term=core.term, number=1, payload=b"no change",
            cluster_id=core.history.cluster_id,
        )  # fmt: skip
        self._send(process, sender, proposal)

    def _beats(self, process: Process, message: Message) -> None:
        peer = self._rng.choice([STRANGER, *(set(self._world.broker_ids) - {message.sender})])
        beat = Heartbeat(broker_id=message.sender, broker_epoch=1, applied_height=1)
        self._send(process, peer, beat)
