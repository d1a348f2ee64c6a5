"""What brokers say to one another on the raft listener, as bytes and as rules. Sans-I/O.

A frame is u32 length of the rest, u16 version, u8 kind, body; big endian. The dialer speaks first,
with HELLO; the other answers WELCOME or REFUSED with a sentence, and everything after it is in the
newest version that both speak. HELLO, WELCOME and REFUSED keep version 1 for ever, so that two
brokers of any age can tell each other why they do not talk.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import Any, NamedTuple

from josefine_broker.base.addresses import parse_host_port
from josefine_broker.base.errors import Fatal
from josefine_broker.base.security import TLS_RECORD

MAGIC = "josefine-raft"
VERSION_MIN = 1
VERSION = 1
FRAME_BYTES_MAX = 16 * 1024 * 1024
"""A raft block is at most 8 MiB; twice that is garbage or another protocol."""

GREETING_BYTES_MAX = 32 * 1024
"""Until the greeting nobody knows who sends: so much fits the members of the largest cluster."""
MEMBERS_MAX = 1_000
"""Brokers that a greeting names."""
TEXT_CHARS_MAX = 300
"""A host name has 253 characters, a cluster's id 22."""
REASON_CHARS_MAX = 1_000
NODE_ID_END = 2**31

_HEAD = struct.Struct(">IHB")
_AFTER_LENGTH = _HEAD.size - 4


class Kind(IntEnum):
    """What a frame is. A number is never used again."""

    HELLO = 1  # who dials, and whom
    WELCOME = 2  # the other's own HELLO
    REFUSED = 3  # why not; the connection ends
    RAFT = 4  # one message of the raft library
    HEARTBEAT = 5  # a broker to the controller
    HEARTBEAT_ANSWER = 6
    DISCOVER = 7  # who are you all?
    DISCOVERED = 8
    PROPOSE = 9  # a change of one that is no member yet
    PROPOSE_ANSWER = 10


GREETINGS = frozenset({Kind.HELLO, Kind.WELCOME, Kind.REFUSED})


class FrameError(Exception):
    """The connection cannot go on; the message is one sentence for the log."""


class Frame(NamedTuple):
    """One frame; a body of JSON is read by `fields`."""

    kind: Kind
    body: bytes

    def fields(self) -> dict[str, Any]:
        """The JSON object of the body. Raises FrameError."""
        try:
            plain = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise FrameError(f"a {self.kind.name} frame that is not JSON") from error
        if not isinstance(plain, dict):
            raise FrameError(f"a {self.kind.name} frame that is not a JSON object")
        return plain


def encode_frame(kind: Kind, body: bytes, version: int = VERSION) -> bytes:
    """The bytes of a frame."""
    if kind in GREETINGS:
        version = 1
    return _HEAD.pack(len(body) + _AFTER_LENGTH, version, kind) + body


def encode_body(fields: Mapping[str, object]) -> bytes:
    """A JSON object as the body of a frame; `Frame.fields` reads it."""
    return json.dumps(fields, separators=(",", ":")).encode()


def encode_fields(kind: Kind, fields: Mapping[str, object], version: int = VERSION) -> bytes:
    """The bytes of a frame whose body is a JSON object."""
    return encode_frame(kind, encode_body(fields), version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """How a broker introduces itself. `to` is who it thinks it dials (0: whoever is there);
    `cluster_id` is empty before birth; `address` is where to dial it back, empty if nowhere;
    `members` are those of the cluster, as far as it knows."""

    node_id: int
    to: int
    cluster_id: str
    address: str
    members: tuple[int, ...] = ()
    version_min: int = VERSION_MIN
    version: int = VERSION

    def encode(self, kind: Kind) -> bytes:
        return encode_fields(
            kind,
            {
                "magic": MAGIC,
                "versions": [self.version_min, self.version],
                "node": self.node_id,
                "to": self.to,
                "cluster": self.cluster_id,
                "address": self.address,
                "members": self.members,
            },
        )

    @classmethod
    def decode(cls, frame: Frame) -> Hello:
        """Raises FrameError."""
        plain = frame.fields()
        try:
            if plain["magic"] != MAGIC:
                raise FrameError("a greeting of another protocol")
            version_min, version = plain["versions"]
            hello = cls(
                node_id=int(plain["node"]),
                to=int(plain["to"]),
                cluster_id=str(plain["cluster"]),
                address=str(plain["address"]),
                members=tuple(map(int, plain.get("members", ()))),  # older ones name none
                version_min=int(version_min),
                version=int(version),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FrameError(f"a greeting without its fields: {_short(repr(error))}") from error
        hello._check()
        return hello

    def _check(self) -> None:
        """What a stranger says ends up in logs and in the address book. Raises FrameError."""
        numbers = (self.node_id, *self.members)
        if not all(1 <= each < NODE_ID_END for each in numbers) or len(numbers) > MEMBERS_MAX + 1:
            raise FrameError("a greeting with ids that no broker has")
        for text in (self.cluster_id, self.address):
            if len(text) > TEXT_CHARS_MAX or not text.isprintable():
                raise FrameError("a greeting with a text that is none")
        if self.address:
            try:
                parse_host_port(self.address)
            except ValueError as error:
                raise FrameError(f"a greeting whose address {error}") from error


def _short(text: str) -> str:
    """What others say, for a log line."""
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= REASON_CHARS_MAX else text[:REASON_CHARS_MAX] + "..."


def refusal(own: Hello, other: Hello) -> str | None:
    """Why `own` does not talk to `other`, whose greeting this is; None: it does."""
    if other.version_min > own.version or own.version_min > other.version:
        return (
            f"broker {other.node_id} speaks raft frames {other.version_min} to {other.version},"
            f" broker {own.node_id} {own.version_min} to {own.version}"
        )
    if own.cluster_id and other.cluster_id and own.cluster_id != other.cluster_id:
        return (
            f"broker {other.node_id} belongs to cluster {other.cluster_id},"
            f" broker {own.node_id} to cluster {own.cluster_id}"
        )
    if other.node_id == own.node_id:
        if other.address and other.address == own.address:  # it dialed itself
            if other.to in (0, own.node_id):
                return f"this is broker {own.node_id} itself"
            return f"the address of broker {other.to} leads to broker {own.node_id} itself"
        return f"two brokers have the id {own.node_id}"
    if other.to not in (0, own.node_id):
        return f"this is broker {own.node_id}, not broker {other.to}"
    return None


Admit = Callable[[Hello], str | None]
"""What more there is against a peer: a reason, or None."""
FrameBytesMax = Callable[[Hello], int]
"""The longest frame that this peer may send."""


class Phase(Enum):
    """How far a connection has come."""

    GREETING = auto()  # the other has not introduced itself
    OPEN = auto()  # frames flow
    OVER = auto()  # refused, broken or closed


class PhaseEvent(Enum):
    """What moves it on."""

    GREETED = auto()  # the other has introduced itself, and is let in
    REFUSED = auto()  # it is not let in, did not let us in, or sent what may not be
    CLOSED = auto()  # the connection ended


TRANSITIONS: dict[tuple[Phase, PhaseEvent], Phase] = {
    (Phase.GREETING, PhaseEvent.GREETED): Phase.OPEN,
    (Phase.GREETING, PhaseEvent.REFUSED): Phase.OVER,
    (Phase.GREETING, PhaseEvent.CLOSED): Phase.OVER,
    (Phase.OPEN, PhaseEvent.REFUSED): Phase.OVER,
    (Phase.OPEN, PhaseEvent.CLOSED): Phase.OVER,
    (Phase.OVER, PhaseEvent.CLOSED): Phase.OVER,
}
"""What is not listed cannot happen: nobody is greeted twice, and what is over says nothing."""


class Session:
    """One connection as a rule: bytes in, frames out, `outgoing` to be written meanwhile.

    `peer` is known once the greeting is over. `feed` raises FrameError once; what is in `outgoing`
    then is still to be sent (it tells the other side why).
    """

    __slots__ = (
        "_admit", "_awaits", "_bytes_max", "_data", "_frame_bytes_max", "_own", "outgoing", "peer",
        "phase", "version",
    )  # fmt: skip

    def __init__(
        self,
        own: Hello,
        *,
        dials: bool,
        admit: Admit | None = None,
        frame_bytes_max: FrameBytesMax | None = None,
    ) -> None:
        self._own = own
        self._admit = admit
        self._frame_bytes_max = frame_bytes_max
        self._bytes_max = GREETING_BYTES_MAX
        self._awaits = Kind.WELCOME if dials else Kind.HELLO
        self._data = bytearray()
        self.outgoing = own.encode(Kind.HELLO) if dials else b""
        self.peer: Hello | None = None
        self.phase = Phase.GREETING
        self.version = VERSION

    def take_outgoing(self) -> bytes:
        data, self.outgoing = self.outgoing, b""
        return data

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """The frames that these bytes complete, the greeting excepted."""
        if self.phase is Phase.OVER:
            return []
        self._data += data
        frames: list[Frame] = []
        try:
            while (frame := self._next()) is not None:
                if self.phase is Phase.GREETING:
                    self._greet(frame)
                elif frame.kind in GREETINGS:
                    raise FrameError(f"a {frame.kind.name} frame after the greeting")
                else:
                    frames.append(frame)
        except FrameError:
            self._on(PhaseEvent.REFUSED)
            raise
        return frames

    def closed(self) -> None:
        """The connection ended, for whatever reason."""
        self._on(PhaseEvent.CLOSED)

    def _on(self, event: PhaseEvent) -> None:
        after = TRANSITIONS.get((self.phase, event))
        if after is None:
            raise Fatal(f"{event.name} cannot happen to a connection that is {self.phase.name}")
        self.phase = after

    def _next(self) -> Frame | None:
        data = self._data
        if len(data) < _HEAD.size:
            return None
        length, version, number = _HEAD.unpack_from(data)
        if self.phase is Phase.GREETING and TLS_RECORD.match(data):
            raise FrameError(
                "it speaks TLS, and the Raft of this broker does not: raft_tls is set on one side"
                " only"
            )
        if not _AFTER_LENGTH <= length <= self._bytes_max:
            raise FrameError(f"a frame of {length} bytes: that is not a broker of ours")
        if len(data) < 4 + length:
            return None
        try:
            kind = Kind(number)
        except ValueError as error:
            raise FrameError(f"a frame of unknown kind {number}") from error
        if version != (1 if kind in GREETINGS else self.version):
            raise FrameError(f"a {kind.name} frame of version {version}, not {self.version}")
        body = bytes(data[_HEAD.size : 4 + length])
        del data[: 4 + length]
        return Frame(kind, body)

    def _greet(self, frame: Frame) -> None:
        if frame.kind is Kind.REFUSED and self._awaits is Kind.WELCOME:
            told = _short(str(frame.fields().get("reason", "no reason given")))
            raise FrameError(f"refused: {told}")
        if frame.kind is not self._awaits:
            raise FrameError(f"a {frame.kind.name} frame before the greeting")
        peer = Hello.decode(frame)
        reason = refusal(self._own, peer)
        if reason is None and self._admit is not None:
            reason = self._admit(peer)
        if reason is not None:
            if self._awaits is Kind.HELLO:
                self.outgoing = encode_fields(Kind.REFUSED, {"reason": reason})
            raise FrameError(reason)
        self.peer = peer
        known = self._frame_bytes_max
        self._bytes_max = FRAME_BYTES_MAX if known is None else known(peer)
        self.version = min(self._own.version, peer.version)
        self._on(PhaseEvent.GREETED)
        if self._awaits is Kind.HELLO:
            self.outgoing = self._own.encode(Kind.WELCOME)
