"""The identity of this broker towards its peers, their addresses, and their admission.

Rules:
- the address book has the configured and stored addresses, and newer ones from the image, greetings
  and answers;
- two processes never communicate under one id;
- a broker presents a cluster id once the block that names the cluster is committed here, and
  registers only after that. So a registered voter that presents none has lost its data, with its
  votes and acknowledged blocks: it is refused.
admission.py decides who may send what.
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


class Advertised:
    """The addresses that this broker advertises, and the warnings about them. Mutable."""

    __slots__ = ("_own", "_warned")

    def __init__(self) -> None:
        self._own: dict[str, HostPort] = {}
        self._warned: set[str] = set()

    def set(self, registration: RegisterBroker, raft: HostPort) -> None:
        """Advertise the listeners of a registration, and `raft` to other brokers."""
        self._own = {
            f"broker.listeners {each.listener}": HostPort(each.host, each.port)
            for each in registration.endpoints
        }
        self._own["raft.listener"] = raft

    def warnings(self, others: Collection[HostPort]) -> list[str]:
        """Those that `others` cannot reach: one sentence for operators, once an address."""
        found = only_on_this_machine(self._own, others)
        fresh = [each for each in found if each.partition(",")[0] not in self._warned]
        self._warned.update(each.partition(",")[0] for each in fresh)
        return fresh


class Invitations:
    """The brokers that greetings named as members, until the image shows them. Mutable."""

    __slots__ = ("_unregistered", "vouched")

    def __init__(self) -> None:
        self.vouched: frozenset[int] = frozenset()
        self._unregistered: frozenset[int] = frozenset()
        """As of the last image: only a removal that is new there revokes an invitation."""

    def revoke_removed(self, unregistered: frozenset[int]) -> None:
        """Revoke those of brokers that the image shows as removed, and did not before."""
        self.vouched -= unregistered - self._unregistered
        self._unregistered = unregistered


class Peers:
    """The peers as known from greetings and the image, and the address book. Mutable."""

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
        """`book` has the configured and stored addresses; `members` are those on raft's head path.
        Image and members are read for each frame: admission must not use outdated ones. `height`
        is that of the last block in the image; `leads` returns whether this broker leads Raft."""
        self.address = address
        """The address of this broker's raft listener for other brokers."""
        self.cluster_id = cluster_id
        """Empty until the block that names this broker's cluster is committed here."""
        self.book = book
        self._own_id = own_id
        # Functions, not values: a cached image would admit a broker after its removal.
        self._members = members
        self._image = image
        self._height = height
        self._leads = leads
        self._invitations = Invitations()
        self._advertised = Advertised()
        self._seeds = seeds
        self._left_behind: tuple[int, int] | None = None
        """(height of the image, time) when others first refused this broker as removed, while its
        own image does not show the removal."""

    def learn_from_image(self) -> None:
        """Take addresses from the image, and revoke the invitation of brokers that were removed,
        unless a later greeting names them again."""
        self._invitations.revoke_removed(self._image().unregistered)
        for broker in self._image().brokers.values():
            if broker.raft is not None and broker.broker_id != self._own_id:
                self.book.learn(broker.broker_id, HostPort(broker.raft.host, broker.raft.port))

    def hello(self, to: int) -> Hello:
        """This broker's introduction to `to` (0: an unknown peer that dialed in)."""
        return Hello(
            node_id=self._own_id,
            to=to,
            cluster_id=self.cluster_id,
            address=str(self.address),
            members=tuple(sorted(self._members()))[:MEMBERS_MAX],
        )

    def roster(self) -> Roster:
        """The brokers known now. The leader itself knows which brokers were admitted again after a
        removal; for it, a greeting that names another removed one is older than the removal."""
        vouched = self._invitations.vouched
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
        """Handle a greeting: invite the members it names, if its sender is trusted. A peer that
        dialed in also reports its own address."""
        self._invitations.vouched = vouched_by(
            self.roster(), peer.node_id, peer.members, was_dialed=was_dialed
        )
        if not was_dialed and peer.address and self.knows(peer.node_id):
            self.book.learn(peer.node_id, parse_host_port(peer.address))

    def is_of_ours_but_unknown(self, peer: Hello) -> bool:
        """Whether the peer presents this cluster and is unknown here. It may be right: members
        change while a broker is offline."""
        is_of_ours = bool(peer.cluster_id) and peer.cluster_id == self.cluster_id
        return is_of_ours and not self.knows(peer.node_id)

    def beats(self, peer: int, epoch: int) -> None:
        """Handle a heartbeat of a broker registered at `epoch`. If it was removed since, its
        invitation ends, even if outdated members still name it: it must learn of the removal."""
        if peer in self._image().unregistered and epoch <= self._height():
            self._invitations.vouched -= {peer}

    def check(self, peer: int, speech: Speech, speaks_for: int | None) -> None:
        """Raises FrameError for a frame that this peer may not send."""
        reason = why_not(self.roster(), peer, speech, speaks_for)
        if reason is not None:
            raise FrameError(reason)

    def why_not(
        self, peer: Hello, *, elsewhere: str, voters: Collection[int], missing: Collection[int] = ()
    ) -> str | None:
        """Why this peer is refused, beyond what its greeting shows; None: it is admitted.

        `elsewhere` is the address of an open connection with the same id, if any; `missing` are
        the voters without which nothing can be decided.
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
        """Why this broker must stop after a refusal: it lost its data, or was removed without
        noticing. The removal counts if the others are beyond the block that registered this broker
        or, if that block is missing here, beyond the image for `patience_ms`. Empty otherwise, and
        while the controller answers (`is_heard`)."""
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
        """Whether the image has stayed below `height` for this long. A broker that joins again
        after a removal is also refused by peers that lag, but the leader sends it blocks."""
        known = self._height()
        if self._left_behind is None or self._left_behind[0] != known:
            self._left_behind = (known, now_ms)
        return height > known and now_ms - self._left_behind[1] >= patience_ms

    def discovered(self, leader: int | None) -> Discovered:
        """The answer to a broker that looks for the cluster."""
        return Discovered(
            cluster_id=self.cluster_id,
            leader=-1 if leader is None else leader,
            addresses={**self.book.newest(), self._own_id: self.address},
        )

    def introduce(self, registration: RegisterBroker) -> None:
        """Set the addresses that this broker advertises from now on."""
        self._advertised.set(registration, self.address)

    def warnings(self) -> list[str]:
        """Warnings about the advertised addresses, each one once, for operators."""
        newest = self.book.newest().items()
        others = [address for broker_id, address in newest if broker_id != self._own_id]
        return self._advertised.warnings([*self._seeds, *others])


def only_on_this_machine(own: Mapping[str, HostPort], others: Collection[HostPort]) -> list[str]:
    """Advertised addresses that only work on this machine although other brokers are elsewhere: one
    sentence each. `own` is keyed by the config key that sets the address."""
    elsewhere = next((each for each in others if not is_loopback(each.host)), None)
    if elsewhere is None:
        return []
    return [
        f"{key} is advertised as {address}, which only this machine reaches, and another broker is"
        f" at {elsewhere}: put this machine's name there"
        for key, address in own.items()
        if is_loopback(address.host)
    ]
