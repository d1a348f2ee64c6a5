"""The frame protocol between brokers on the raft listener: bytes and session rules. Sans-I/O.

A frame is u32 length of the rest, u16 version, u8 kind, body; big endian. The dialer starts with
HELLO; the other side answers WELCOME, or REFUSED with a sentence, and everything after it has the
newest version that both support. HELLO, WELCOME and REFUSED keep version 1 forever, so that two
brokers of any age can report to each other why they do not connect.
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
"""A raft block has at most 8 MiB; a frame above twice that is garbage or another protocol."""

GREETING_BYTES_MAX = 32 * 1024
"""Limit before the greeting, when the sender is unknown: fits the members of a large cluster."""
MEMBERS_MAX = 1_000
"""Brokers named in a greeting."""
TEXT_CHARS_MAX = 300
"""A host name has up to 253 characters, a cluster id 22."""
REASON_CHARS_MAX = 1_000
NODE_ID_END = 2**31

_HEAD = struct.Struct(">IHB")
_AFTER_LENGTH = _HEAD.size - 4


class Kind(IntEnum):
    """The kind of a frame. A number is never reused."""

    HELLO = 1  # the dialer, and the broker it expects
    WELCOME = 2  # the other side's own HELLO
    REFUSED = 3  # the reason; the connection is closed
    RAFT = 4  # one message of the raft library
    HEARTBEAT = 5  # from a broker to the controller
    HEARTBEAT_ANSWER = 6
    DISCOVER = 7  # a request for the members
    DISCOVERED = 8
    PROPOSE = 9  # a change from a broker that is not a member yet
    PROPOSE_ANSWER = 10


GREETINGS = frozenset({Kind.HELLO, Kind.WELCOME, Kind.REFUSED})


class FrameError(Exception):
    """The connection must be closed; the message is one sentence for the log."""


class Frame(NamedTuple):
    """One frame; `fields` decodes a JSON body."""

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
    """The frame as bytes."""
    if kind in GREETINGS:
        version = 1
    return _HEAD.pack(len(body) + _AFTER_LENGTH, version, kind) + body


def encode_body(fields: Mapping[str, object]) -> bytes:
    """A JSON object as a frame's body; `Frame.fields` decodes it."""
    return json.dumps(fields, separators=(",", ":")).encode()


def encode_fields(kind: Kind, fields: Mapping[str, object], version: int = VERSION) -> bytes:
    """A frame with a JSON object as body, as bytes."""
    return encode_frame(kind, encode_body(fields), version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A broker's introduction. `to` is the broker that it expects (0: any); `cluster_id` is empty
    before the cluster is named; `address` is where it accepts connections, empty if nowhere;
    `members` are those of the cluster, as far as it knows."""

    node_id: int
    to: int
    cluster_id: str
    address: str
    members: tuple[int, ...] = ()
    version_min: int = VERSION_MIN
    version: int = VERSION

    def encode(self, kind: Kind) -> bytes:
        """As HELLO or WELCOME, in JSON: brokers of all versions must read it."""
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
        """The introduction in a frame. Raises FrameError."""
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
        """Check values of an untrusted peer, which get into logs and the address book. Raises
        FrameError."""
        numbers = (self.node_id, *self.members)
        if not all(1 <= each < NODE_ID_END for each in numbers) or len(numbers) > MEMBERS_MAX + 1:
            raise FrameError("a greeting with invalid broker ids")
        for text in (self.cluster_id, self.address):
            if len(text) > TEXT_CHARS_MAX or not text.isprintable():
                raise FrameError("a greeting with an invalid cluster id or address")
        if self.address:
            try:
                parse_host_port(self.address)
            except ValueError as error:
                raise FrameError(f"a greeting whose address {error}") from error


def _short(text: str) -> str:
    """A peer's text, shortened for a log line."""
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= REASON_CHARS_MAX else text[:REASON_CHARS_MAX] + "..."


def refusal(own: Hello, other: Hello) -> str | None:
    """Why `own` refuses to connect to `other`, whose greeting this is; None: it connects."""
    if other.version_min > own.version or own.version_min > other.version:
        return (
            f"broker {other.node_id} speaks raft frames {other.version_min} to {other.version},"
            f" broker {own.node_id} {own.version_min} to {own.version}"
        )
    # A broker without a name of its cluster may still join either; two names never become one.
    if own.cluster_id and other.cluster_id and own.cluster_id != other.cluster_id:
        return (
            f"broker {other.node_id} belongs to cluster {other.cluster_id},"
            f" broker {own.node_id} to cluster {own.cluster_id}"
        )
    if other.node_id == own.node_id:
        # A wrong entry in the configuration, or an address that moved: not a second broker of this
        # id.
        if other.address and other.address == own.address:  # it dialed itself
            if other.to in (0, own.node_id):
                return f"this is broker {own.node_id} itself"
            return f"the address of broker {other.to} leads to broker {own.node_id} itself"
        return f"two brokers have the id {own.node_id}"
    if other.to not in (0, own.node_id):
        return f"this is broker {own.node_id}, not broker {other.to}"
    return None


Admit = Callable[[Hello], str | None]
"""Further checks of a peer: a reason to refuse it, or None."""
FrameBytesMax = Callable[[Hello], int]
"""The longest frame that a peer may send."""


class Phase(Enum):
    """The phase of a connection."""

    GREETING = auto()  # the peer has not introduced itself
    OPEN = auto()  # frames are exchanged
    OVER = auto()  # refused, broken or closed


class PhaseEvent(Enum):
    """The events of a connection."""

    GREETED = auto()  # the peer has introduced itself, and is admitted
    REFUSED = auto()  # one side refused the other, or the peer sent an invalid frame
    CLOSED = auto()  # the connection ended


TRANSITIONS: dict[tuple[Phase, PhaseEvent], Phase] = {
    (Phase.GREETING, PhaseEvent.GREETED): Phase.OPEN,
    (Phase.GREETING, PhaseEvent.REFUSED): Phase.OVER,
    (Phase.GREETING, PhaseEvent.CLOSED): Phase.OVER,
    (Phase.OPEN, PhaseEvent.REFUSED): Phase.OVER,
    (Phase.OPEN, PhaseEvent.CLOSED): Phase.OVER,
    (Phase.OVER, PhaseEvent.CLOSED): Phase.OVER,
}
"""What is not listed cannot happen: there is one greeting, and nothing is sent after the end."""


class Session:
    """The protocol of one connection: bytes in, frames out, and `outgoing` to be written.

    `peer` is known after the greeting. `feed` raises FrameError once; `outgoing` must still be sent
    then, because it reports the reason to the peer.
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
        """The frames that these bytes complete, without the greeting."""
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
        """The connection ended, for any reason."""
        self._on(PhaseEvent.CLOSED)

    def _on(self, event: PhaseEvent) -> None:
        """Follow the transition table. Raises Fatal for an event that is not listed."""
        after = TRANSITIONS.get((self.phase, event))
        if after is None:
            raise Fatal(f"{event.name} cannot happen to a connection that is {self.phase.name}")
        self.phase = after

    def _next(self) -> Frame | None:
        """The next whole frame, if it has arrived. Raises FrameError by its head alone, before its
        body takes memory."""
        data = self._data
        if len(data) < _HEAD.size:
            return None
        length, version, number = _HEAD.unpack_from(data)
        if self.phase is Phase.GREETING and TLS_RECORD.match(data):
            raise FrameError(
                "the peer speaks TLS, and the raft listener of this broker does not: raft_tls is"
                " set on one side only"
            )
        # A stranger gets room for a greeting; what a known peer may send depends on who it is.
        if not _AFTER_LENGTH <= length <= self._bytes_max:
            raise FrameError(f"a frame of {length} bytes: the peer is not a Josefine broker")
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
        """Take the peer's introduction, and answer a dialer. Raises FrameError if either side
        refuses."""
        if frame.kind is Kind.REFUSED and self._awaits is Kind.WELCOME:
            given = _short(str(frame.fields().get("reason", "no reason given")))
            raise FrameError(f"refused: {given}")
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
