"""Who this broker is to the others, where they are, and which of them it lets in.

Rules: the address book holds what the configuration names, what was kept, and what is newer: the
image, greetings, answers. Two processes never speak under one id. A broker says that it is of a
cluster when the block that names it is committed here, and registers only then: a voter that once
did and now names none has lost its data, and with it its votes and promises; it is not let in. Who
may say what is in admission.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from josefine_broker.base.addresses import HostPort, is_loopback, parse_host_port
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.cluster.admission import Roster, Speech, Standing, vouched_by, why_not
from josefine_broker.engine.cluster.frames import MEMBERS_MAX, FrameError, Hello
from josefine_broker.engine.cluster.joining import (
    forgotten,
    removed,
    removed_as_of,
    way_back,
)
from josefine_broker.engine.cluster.messages import Discovered
from josefine_broker.engine.metadata.changes import RegisterBroker
from josefine_broker.engine.metadata.image import MetadataImage


class Peers:
    """Mutable: what greetings tell, and the address book."""

    def __init__(
        self,
        own_id: int,
        *,
        address: HostPort,
        cluster_id: str,
        seeds: tuple[HostPort, ...],
        book: AddressBook,
        image: Callable[[], MetadataImage],
        members: Callable[[], frozenset[int]],
        height: Callable[[], int] = lambda: 0,
        leads: Callable[[], bool] = lambda: False,
    ) -> None:
        """`book` has what is configured and kept; `members` are those of raft's head path. Both
        are asked at each frame: the door must not be behind what it guards. `height` is that of the
        last block that the image holds; `leads` says whether this broker leads Raft."""
        self.address = address
        """Where this broker's raft listener is to be dialed."""
        self.cluster_id = cluster_id
        """Empty until the block that names this broker's cluster is committed here."""
        self.book = book
        self._own_id = own_id
        self._members = members
        self._image = image
        self._height = height
        self._leads = leads
        self._unregistered: frozenset[int] = frozenset()
        self._vouched: frozenset[int] = frozenset()
        self._own: dict[str, HostPort] = {}
        self._seeds = seeds
        self._warned: set[str] = set()
        self._left_behind: tuple[int, int] | None = None
        """(height that the image had, since when) as others refused this broker, which it does not
        name, as removed."""

    def learn_from_image(self) -> None:
        """The image says where the others are, and who was removed: it is invited no more, unless a
        later greeting names it."""
        unregistered = self._image().unregistered
        self._vouched -= unregistered - self._unregistered
        self._unregistered = unregistered
        for broker in self._image().brokers.values():
            if broker.raft is not None and broker.broker_id != self._own_id:
                self.book.learn(broker.broker_id, HostPort(broker.raft.host, broker.raft.port))

    def hello(self, to: int) -> Hello:
        """How this broker introduces itself to `to` (0: whoever dialed)."""
        return Hello(
            node_id=self._own_id,
            to=to,
            cluster_id=self.cluster_id,
            address=str(self.address),
            members=tuple(sorted(self._members()))[:MEMBERS_MAX],
        )

    def roster(self) -> Roster:
        """Whom this broker knows now. Who leads Raft knows by itself who was let in again since it
        was removed: then a greeting that names one is older than the removal."""
        vouched = self._vouched
        if vouched and self._leads():
            vouched -= self._image().unregistered
        return Roster(
            own_id=self._own_id,
            members=self._members(),
            registered=self._image().brokers,
            vouched=vouched,
        )

    def knows(self, peer: int) -> bool:
        return self.roster().standing(peer) is not Standing.STRANGER

    def greeted(self, peer: Hello, *, was_dialed: bool) -> None:
        """A greeting names who belongs to the cluster: whose word counts is the door's. Who dials
        says where it is."""
        self._vouched = vouched_by(self.roster(), peer.node_id, peer.members, was_dialed=was_dialed)
        if not was_dialed and peer.address and self.knows(peer.node_id):
            self.book.learn(peer.node_id, parse_host_port(peer.address))

    def is_of_ours_but_unknown(self, peer: Hello) -> bool:
        """It says that it is of this cluster, and may be right: members change while one is
        away."""
        is_of_ours = bool(peer.cluster_id) and peer.cluster_id == self.cluster_id
        return is_of_ours and not self.knows(peer.node_id)

    def beats(self, peer: int, epoch: int) -> None:
        """It was registered in this block. One that was removed since is invited no more, though
        members that did not know it yet named it after that: it is to be told."""
        if peer in self._image().unregistered and epoch <= self._height():
            self._vouched -= {peer}

    def check(self, peer: int, speech: Speech, speaks_for: int | None) -> None:
        """Raises FrameError for a frame that this peer may not send."""
        reason = why_not(self.roster(), peer, speech, speaks_for)
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
        image = self._image()
        known = image.brokers.get(peer.node_id)
        if peer.node_id in image.unregistered and peer.cluster_id and not self.knows(peer.node_id):
            return removed(peer.node_id, self._height())
        is_voter = self.cluster_id and peer.node_id in voters
        if known is not None and is_voter and not peer.cluster_id:
            own = image.brokers.get(self._own_id)
            return forgotten(peer.node_id) + way_back(peer.node_id, own, missing)
        return None

    def must_stop(
        self, refusal: str, now_ms: int, *, patience_ms: int, is_heard: bool = False
    ) -> str:
        """The sentence, where this broker was refused as one that lost its data, or that was
        removed and missed it: the others know more than the block that registered it or, where that
        block did not come here either, than this broker learned in `patience_ms`. Else empty, so
        too for who `is_heard` by the controller."""
        at = refusal.find(forgotten(self._own_id))
        if not self.cluster_id:
            return refusal[at:] if at >= 0 else ""
        told = removed_as_of(refusal, self._own_id)
        if told is None or is_heard:
            return ""
        sentence, height = told
        own = self._image().brokers.get(self._own_id)
        if own is None:
            return sentence if self._stays_behind(height, now_ms, patience_ms) else ""
        return sentence if height >= own.epoch else ""

    def _stays_behind(self, height: int, now_ms: int, patience_ms: int) -> bool:
        """Whether the image stood still below `height` for so long. Who comes back after a removal
        is refused as well, by those that lag; but the leader sends it blocks meanwhile."""
        known = self._height()
        if self._left_behind is None or self._left_behind[0] != known:
            self._left_behind = (known, now_ms)
        return height > known and now_ms - self._left_behind[1] >= patience_ms

    def discovered(self, leader: int | None) -> Discovered:
        """What a broker is told that looks for the cluster."""
        return Discovered(
            cluster_id=self.cluster_id,
            leader=-1 if leader is None else leader,
            addresses={**self.book.newest(), self._own_id: self.address},
        )

    def introduce(self, registration: RegisterBroker) -> None:
        """From now on this is what the others are told of us."""
        self._own = {
            f"broker.listeners {each.listener}": HostPort(each.host, each.port)
            for each in registration.endpoints
        }
        self._own["raft.listener"] = self.address

    def warnings(self) -> list[str]:
        """What is wrong with what they are told, each once, for people."""
        others = [*self._seeds]
        for broker_id, address in self.book.newest().items():
            if broker_id != self._own_id:
                others.append(address)
        found = only_on_this_machine(self._own, others)
        fresh = [each for each in found if each.partition(",")[0] not in self._warned]
        self._warned.update(each.partition(",")[0] for each in fresh)
        return fresh


def only_on_this_machine(own: Mapping[str, HostPort], others: Collection[HostPort]) -> list[str]:
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
