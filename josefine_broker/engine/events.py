"""What a host tells its broker (`Event`) and what it is asked to do (`Ready`). Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from josefine_broker.engine.cluster.frames import Hello
from josefine_broker.engine.cluster.joining import Ask
from josefine_broker.engine.cluster.messages import Said
from josefine_broker.engine.metadata.changes import RegisterBroker
from raft import Batch

# -- what happens to a broker


@dataclass(frozen=True, slots=True)
class Greeted:
    """A peer introduced itself, and was let in (`Broker.why_not_admitted`)."""

    peer: Hello
    was_dialed: bool
    """By us: it answers at an address that this broker knows."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A frame of a peer that has greeted."""

    peer: Hello
    said: Said
    reply_to: object = None
    """What the host needs to carry a `Reply` back on the same connection."""


@dataclass(frozen=True, slots=True)
class Answered:
    """To the `Ask` of this number."""

    number: int
    said: Said


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The `Ask` of this number has no answer, and will have none."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """A peer that was dialed did not let this broker in: its sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class PeersGone:
    """Where these brokers listened, nobody does: they have no process."""

    peers: frozenset[int]


@dataclass(frozen=True, slots=True)
class Appended:
    """The `Store` in hand is written; not durable yet, if it is to be synced apart."""


@dataclass(frozen=True, slots=True)
class Synced:
    """The `Store` in hand is durable."""


@dataclass(frozen=True, slots=True)
class FoundNoRoom:
    """The `Store` in hand could not be written for want of room; nothing of it was."""

    reason: str


@dataclass(frozen=True, slots=True)
class Enrol:
    """This process is ready to be registered."""

    registration: RegisterBroker
    started: tuple[str, ...] = ()
    """Earlier incarnations on the same disk that may have been registered and never knew."""


@dataclass(frozen=True, slots=True)
class Leave:
    """It shall stop: hand over first."""


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


# -- what a host is to do


@dataclass(frozen=True, slots=True)
class Store:
    """A batch of Raft's to be made durable: `Appended` when it is written, `Synced` when it is
    durable. One is in hand at a time."""

    batch: Batch
    sync_apart: bool
    """Something waits to be applied that is durable already: write, say `Appended`, and only then
    sync. Else both may be one step."""


@dataclass(frozen=True, slots=True)
class Send:
    """To a broker; it may be lost."""

    to: int
    said: Said


@dataclass(frozen=True, slots=True)
class Reply:
    """On the connection that a frame came by; it may be lost."""

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

    `belongs_to` is durable before any frame leaves: a broker that says whose it is must know it
    after a restart. `store` is begun whenever the disk is idle.
    """

    belongs_to: str = ""
    """The block that names the cluster is committed here: note it for ever."""
    store: Store | None = None
    sends: list[Send] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    image_changed: bool = False
    """Who reads the image may have something to do."""
    book_changed: bool = False
    """Keep `Broker.peers.book`; a loss costs only what the next start knows."""
    notices: list[Notice] = field(default_factory=list)
