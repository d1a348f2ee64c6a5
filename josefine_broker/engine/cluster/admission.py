"""Admission of frames on the raft port: which peers may send which messages.

Rules: a message is checked where it enters. A peer only speaks for the broker that it introduced
itself as. Members and invited brokers (registered, or named in a member's greeting) may send
everything that brokers send; any other peer may ask for the members, and to be registered. A
message that is impossible after admission is a bug in this code base. Values in, a reason or None
out; the process and the cluster simulation use the same functions.
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
    """The relation of a peer to this broker."""

    MEMBER = auto()  # a voter or learner on raft's head path
    INVITED = auto()  # registered, or named in a member's greeting: our own view may lag
    STRANGER = auto()


class Speech(Enum):
    """The kinds of messages for admission, named as in frames.py."""

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
"""Which peers may send what; a kind that is not in this table is not sent by peers."""

STRANGER_FRAME_BYTES_MAX = 256 * 1024
"""Several times the size of the largest message of a stranger, a broker's registration."""
VOUCHED_MAX = 1_000
"""Brokers named in greetings; larger clusters do not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The brokers that this one knows when a frame arrives."""

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
    """Why a frame of `peer`, which introduced itself with this id, is refused; None: it is
    accepted.

    `speaks_for` is the broker that the frame names as its sender; None for kinds of frames that
    name none.
    """
    if roster.standing(peer) not in LISTENS[speech]:
        return (
            f"broker {peer} is not a member of this cluster and may not send {speech.name} frames"
        )
    if speaks_for not in (None, peer):
        return f"broker {peer} sent a {speech.name} frame in the name of broker {speaks_for}"
    return None


def why_not_payload(payload: bytes) -> str | None:
    """Why a proposal of another broker is refused: a change that cannot be decoded, or whose values
    have the wrong types, would stop every broker once it is committed."""
    try:
        change, origin = decode_change(payload)
    except CorruptData as error:
        return str(error)
    if not (is_typed(change, type(change)) and is_typed(origin, Origin)):
        return f"a {type(change).__name__} with values of the wrong type"
    return _out_of_bounds(change) if isinstance(change, RegisterBroker) else None


def _out_of_bounds(change: RegisterBroker) -> str | None:
    """Limits of a registration: anyone may ask for one, and every broker and client gets it."""
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
    """The invited brokers after a greeting, which names the members of the cluster.

    It counts from a member or an invited broker, and from any broker at an address that this one
    dialed, from its configuration or its cluster. A voter that was offline while the members
    changed has no other way to know its leader, nor has a broker that joins.
    """
    before = frozenset(roster.vouched)
    if not was_dialed and roster.standing(peer) is Standing.STRANGER:
        return before
    after = before | frozenset(names)
    return after if len(after) <= VOUCHED_MAX else before
