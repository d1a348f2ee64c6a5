"""Who this broker is to the others, where they are, and which of them it lets in.

Rules: the address book holds what the configuration names, what was stored, and what is newer: the
image, greetings, answers. Two processes never speak under one id. A broker says that it is of a
cluster when the block that names it is committed here, and registers only then: a voter that once
did and now names none has lost its data, and with it its votes and promises; it is not let in. Who
may say what is in core/door.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from josefine_broker.compose import only_on_this_machine
from josefine_broker.config import BrokerConfig, HostPort
from josefine_broker.core.changes import RegisterBroker
from josefine_broker.core.door import Roster, Speech, Standing, vouched_by, why_not
from josefine_broker.handlers.context import Context
from josefine_broker.joining import Discovered, forgotten, way_back
from josefine_broker.shell.address_book import BOOK_FILE, AddressBook
from josefine_broker.shell.raft_frames import MEMBERS_MAX, FrameError, Hello

log = logging.getLogger(__name__)


class Peers:
    """Mutable: what greetings tell, and the address book."""

    def __init__(
        self,
        config: BrokerConfig,
        ctx: Context,
        *,
        address: HostPort,
        cluster_id: str,
        members: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """`members` are those of raft's head path."""
        self.address = address
        """Where this broker's raft listener is to be dialed."""
        self.cluster_id = cluster_id
        """Empty until the block that names this broker's cluster is committed here."""
        self.book = AddressBook(config.broker.data_dir / BOOK_FILE)
        self._ctx = ctx
        self._members = members
        self._vouched: frozenset[int] = frozenset()
        for voter in config.raft.voters:
            self.book.learn(voter.id, voter.address)
        self.book.load()
        self._seeds = config.raft.seeds
        self._own: dict[str, HostPort] = {}
        self._warned: set[str] = set()

    def hello(self, to: int) -> Hello:
        """How this broker introduces itself to `to` (0: whoever dialed)."""
        return Hello(
            node_id=self._ctx.broker_id,
            to=to,
            cluster_id=self.cluster_id,
            address=str(self.address),
            members=tuple(sorted(self._members()))[:MEMBERS_MAX],
        )

    def roster(self) -> Roster:
        """Whom this broker knows now."""
        return Roster(
            own_id=self._ctx.broker_id,
            members=self._members(),
            registered=self._ctx.image.brokers,
            vouched=self._vouched,
        )

    def knows(self, peer: int) -> bool:
        return self.roster().standing(peer) is not Standing.STRANGER

    def greeted(self, peer: Hello, was_dialed: bool) -> None:
        """A greeting names who belongs to the cluster: whose word counts is the door's."""
        self._vouched = vouched_by(self.roster(), peer.node_id, peer.members, was_dialed=was_dialed)

    def check(self, peer: Hello, speech: Speech, speaks_for: int | None = None) -> None:
        """Raises FrameError for a frame that this peer may not send."""
        reason = why_not(self.roster(), peer.node_id, speech, speaks_for)
        if reason is not None:
            raise FrameError(reason)

    def why_not(
        self, peer: Hello, *, elsewhere: str, voters: Collection[int], missing: Collection[int] = ()
    ) -> str | None:
        """Why this peer is not taken, beyond what the greeting itself shows; None: it is.

        `elsewhere` is the address of an open connection under its id, if there is one; `missing`
        are the voters that must come before anything can be decided.
        """
        if elsewhere and elsewhere != peer.address:
            return f"broker {peer.node_id} is connected already, from {elsewhere}"
        known = self._ctx.image.brokers.get(peer.node_id)
        is_voter = self.cluster_id and peer.node_id in voters
        if known is not None and is_voter and not peer.cluster_id:
            own = self._ctx.image.brokers.get(self._ctx.broker_id)
            return forgotten(peer.node_id) + way_back(peer.node_id, own, missing)
        return None

    def must_stop(self, refusal: str) -> str:
        """The sentence, where this broker was refused as one that lost its data; else empty."""
        at = refusal.find(forgotten(self._ctx.broker_id))
        return "" if self.cluster_id or at < 0 else refusal[at:]

    def discovered(self, leader: int | None) -> Discovered:
        """What a broker is told that looks for the cluster."""
        return Discovered(
            cluster_id=self.cluster_id,
            leader=-1 if leader is None else leader,
            addresses={**self.book.newest(), self._ctx.broker_id: self.address},
        )

    def introduce(self, registration: RegisterBroker) -> list[str]:
        """From now on this is what the others are told of us; what is wrong with it, for people."""
        self._own = {
            f"broker.listeners {each.listener}": HostPort(each.host, each.port)
            for each in registration.endpoints
        }
        self._own["raft.listener"] = self.address
        return self._new_warnings()

    def _new_warnings(self) -> list[str]:
        others = [*self._seeds]
        for broker_id, address in self.book.newest().items():
            if broker_id != self._ctx.broker_id:
                others.append(address)
        found = only_on_this_machine(self._own, others)
        fresh = [each for each in found if each.partition(",")[0] not in self._warned]
        self._warned.update(each.partition(",")[0] for each in fresh)
        return fresh

    def learn_from_image(self) -> None:
        """Keep where the image says that the others are."""
        for broker in self._ctx.image.brokers.values():
            if broker.raft is not None and broker.broker_id != self._ctx.broker_id:
                self.book.learn(broker.broker_id, HostPort(broker.raft.host, broker.raft.port))
        for warning in self._new_warnings():
            log.warning("advertised address", extra={"reason": warning})
        self.store()

    def store(self) -> None:
        """Write the book if it changed; a failure costs only what the next start knows."""
        try:
            self.book.store()
        except OSError as error:
            log.warning("address book not stored", extra={"reason": error})
