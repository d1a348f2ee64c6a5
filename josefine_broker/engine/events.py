"""The events that a host passes to its broker (`Event`), and the work it gets (`Ready`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from josefine_broker.engine.cluster.frames import Hello
from josefine_broker.engine.cluster.joining import Ask
from josefine_broker.engine.cluster.messages import Said
from josefine_broker.engine.metadata.changes import RegisterBroker
from raft import Batch

# -- events


@dataclass(frozen=True, slots=True)
class Greeted:
    """A peer introduced itself and was admitted (`Broker.why_not_admitted`)."""

    peer: Hello
    was_dialed: bool
    """Dialed by this broker: the peer answers at an address that this broker knows."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A frame from a peer that has introduced itself."""

    peer: Hello
    said: Said
    reply_to: object = None
    """What the host needs to send a `Reply` on the same connection."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to the `Ask` with this number."""

    number: int
    said: Said


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The `Ask` with this number failed: no answer will come."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """A dialed peer refused this broker, with its reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class PeersGone:
    """Nothing listens at these brokers' addresses: they have no process."""

    peers: frozenset[int]


@dataclass(frozen=True, slots=True)
class Appended:
    """The `Store` in hand is written; not durable yet, if it is synced in a separate step."""


@dataclass(frozen=True, slots=True)
class Synced:
    """The `Store` in hand is durable."""


@dataclass(frozen=True, slots=True)
class FoundNoRoom:
    """The `Store` in hand could not be written for lack of space; no part of it was."""

    reason: str


@dataclass(frozen=True, slots=True)
class Enrol:
    """This process is ready to be registered."""

    registration: RegisterBroker
    started: tuple[str, ...] = ()
    """Earlier incarnations on this disk that may have been registered without learning of it."""


@dataclass(frozen=True, slots=True)
class Leave:
    """This broker is to stop, after a handover."""


Event = (
    Greeted
    | Heard
    | Answered
    | Unanswered
    | TurnedAway
    | PeersGone
    | Appended
    | Synced
    | FoundNoRoom
    | Enrol
    | Leave
)


# -- work for the host


@dataclass(frozen=True, slots=True)
class Store:
    """A Raft batch to be made durable: the host reports `Appended` when it is written, and
    `Synced` when it is durable. One is in hand at a time."""

    batch: Batch
    sync_apart: bool
    """Blocks that are durable already wait to be applied: write, report `Appended`, and only then
    sync. Else both may be one step."""


@dataclass(frozen=True, slots=True)
class Send:
    """A message to a broker; it may be lost."""

    to: int
    said: Said


@dataclass(frozen=True, slots=True)
class Reply:
    """A message on the connection that a frame came from; it may be lost."""

    reply_to: object
    said: Said


@dataclass(frozen=True, slots=True)
class Notice:
    """An event for the log: a constant message and its fields."""

    message: str
    fields: dict[str, Any]
    is_warning: bool = False


@dataclass(slots=True, kw_only=True)
class Ready:
    """A host's work, in this order; everything may be empty.

    `belongs_to` must be durable before any frame is sent: a broker that has announced its cluster
    must know it after a restart. `store` is started whenever the disk is idle.
    """

    belongs_to: str = ""
    """The block that names the cluster is committed here: note the cluster id forever."""
    store: Store | None = None
    sends: list[Send] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    image_changed: bool = False
    """Readers of the image may have work to do."""
    book_changed: bool = False
    """Store `Broker.peers.book`; losing it costs only what the next start knows."""
    notices: list[Notice] = field(default_factory=list)
