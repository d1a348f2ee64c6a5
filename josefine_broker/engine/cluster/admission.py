"""The door of the raft port: whose frames a broker listens to, and which of them it believes.

Rules: a peer's word is checked where it enters. Who greeted is the only one it speaks for. Members
and invited brokers (registered, or named by a member's greeting) may say everything that brokers
say; anybody else may ask who there is, and to be let in. Behind the door an impossible message is a
bug of ours. Values in, a reason or None out; the process and the cluster simulation ask the same.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.typed import is_typed
from josefine_broker.engine.metadata.change_codec import decode_change
from josefine_broker.engine.metadata.changes import Origin, RegisterBroker


class Standing(Enum):
    """What a peer is to this broker."""

    MEMBER = auto()  # a voter or learner on raft's head path
    INVITED = auto()  # registered, or a member's greeting named it: our own view may be behind
    STRANGER = auto()


class Speech(Enum):
    """What a frame says, by the name of its kind in frames.py."""

    RAFT = auto()
    HEARTBEAT = auto()
    HEARTBEAT_ANSWER = auto()
    DISCOVER = auto()
    PROPOSE = auto()


_KNOWN = frozenset({Standing.MEMBER, Standing.INVITED})
_ANYBODY = frozenset(Standing)
LISTENS: dict[Speech, frozenset[Standing]] = {
    Speech.RAFT: _KNOWN,
    Speech.HEARTBEAT: _KNOWN,
    Speech.HEARTBEAT_ANSWER: _KNOWN,
    Speech.DISCOVER: _ANYBODY,
    Speech.PROPOSE: _ANYBODY,
}
"""Whom a broker listens to: a literal table, and what is not in it is not said by peers."""

STRANGER_FRAME_BYTES_MAX = 256 * 1024
"""What a stranger may ask fits many times over: the registration of a broker."""
VOUCHED_MAX = 1_000
"""Brokers that greetings named; a cluster of more does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """Whom this broker knows when a frame arrives."""

    own_id: int
    members: Collection[int]
    registered: Collection[int]
    """Brokers in the image."""
    vouched: Collection[int]

    def standing(self, peer: int) -> Standing:
        if peer == self.own_id:
            return Standing.STRANGER  # another process with our id
        if peer in self.members:
            return Standing.MEMBER
        if peer in self.registered or peer in self.vouched:
            return Standing.INVITED
        return Standing.STRANGER


def why_not(roster: Roster, peer: int, speech: Speech, speaks_for: int | None) -> str | None:
    """Why a frame of `peer`, who greeted by this id, is not taken; None: it is.

    `speaks_for` is the broker that the frame says it comes from; None where frames of this kind do
    not say.
    """
    if roster.standing(peer) not in LISTENS[speech]:
        return f"broker {peer} is no member of this cluster and may not send {speech.name} frames"
    if speaks_for not in (None, peer):
        return f"broker {peer} sent a {speech.name} frame in the name of broker {speaks_for}"
    return None


def why_not_payload(payload: bytes) -> str | None:
    """Why a proposal of another broker is not appended: a change that cannot be read, or that is
    not what its class declares, would stop every broker once it is committed."""
    try:
        change, origin = decode_change(payload)
    except CorruptData as error:
        return str(error)
    if not (is_typed(change, type(change)) and is_typed(origin, Origin)):
        return f"a {type(change).__name__} with values of the wrong type"
    return _out_of_bounds(change) if isinstance(change, RegisterBroker) else None


def _out_of_bounds(change: RegisterBroker) -> str | None:
    """Anybody may ask to be registered, and everybody is told what was."""
    addresses = [(each.host, each.port) for each in change.endpoints]
    if change.raft is not None:
        addresses.append((change.raft.host, change.raft.port))
    if not 1 <= change.broker_id < 2**31:
        return f"a registration of broker {change.broker_id}"
    for host, port in addresses:
        if not 0 < port < 2**16 or not host:
            return f"a registration with the address {host}:{port}"
    return None


def vouched_by(
    roster: Roster, peer: int, names: Collection[int], *, was_dialed: bool
) -> frozenset[int]:
    """Whom this broker takes for invited from now on: a greeting names who belongs to the cluster.

    The word of a member or an invited one counts, and that of whoever answers at an address that
    this broker dialed, from its configuration or its cluster. A voter that was away while members
    changed has no other way to know its leader, nor has one that joins.
    """
    before = frozenset(roster.vouched)
    if not was_dialed and roster.standing(peer) is Standing.STRANGER:
        return before
    after = before | frozenset(names)
    return after if len(after) <= VOUCHED_MAX else before
