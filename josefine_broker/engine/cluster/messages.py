"""The messages between brokers, as values, and their encoding as bodies of frames.

Rules: one row per kind in `CODECS`; only these follow a greeting. A body that cannot be decoded is
a FrameError, and the connection is closed. admission.py decides who may send what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from josefine_broker.base.addresses import HostPort, parse_host_port
from josefine_broker.engine.cluster.admission import Speech
from josefine_broker.engine.cluster.frames import Frame, FrameError, Kind, encode_body
from josefine_broker.engine.controller.controller import Heartbeat, HeartbeatAnswer
from josefine_broker.engine.metadata.log_completeness import Completeness
from raft import CorruptBlock, Message
from raft.codec import decode as decode_message
from raft.codec import encode as encode_message

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discover:
    """A request for the members of the cluster and their addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """A broker's knowledge of its cluster; `leader` is -1 when unknown."""

    cluster_id: str
    leader: int
    addresses: Mapping[int, HostPort] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeChange:
    """A request to propose a change for a broker that is not a member: its own registration."""

    change: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeAnswer:
    """The result; without either text, the change is committed."""

    refused: str = ""
    """Why the cluster refuses this broker for good."""
    failed: str = ""
    """Why the broker should ask again."""


Said = Message | Heartbeat | HeartbeatAnswer | Discover | Discovered | ProposeChange | ProposeAnswer


def encode_said(said: Said) -> tuple[Kind, bytes]:
    """The frame's kind and body."""
    kind = kind_of(said)
    return kind, CODECS[kind].encode(said)


def decode_said(frame: Frame) -> Said:
    """The message in a frame. Raises FrameError."""
    codec = CODECS.get(frame.kind)
    if codec is None:
        raise FrameError(f"an unexpected {frame.kind.name} frame")
    return codec.decode(frame)


def kind_of(said: Said) -> Kind:
    """The kind of frame that carries the message."""
    return _KINDS.get(type(said), Kind.RAFT)


def _encode_beat(beat: Heartbeat) -> bytes:
    """Short names: one goes out per broker and interval, for as long as it runs."""
    fields: dict[str, Any] = {
        "broker": beat.broker_id,
        "epoch": beat.broker_epoch,
        "applied": beat.applied_height,
        "stops": beat.wants_shutdown,
    }
    # Rarely there, and of no meaning to an older controller.
    if beat.better_claims:
        fields["logs"] = [
            [topic_id.hex, index, each.value]
            for (topic_id, index), each in beat.better_claims.items()
        ]
    return encode_body(fields)


def _decode_beat(plain: dict[str, Any]) -> Heartbeat:
    """Each field is converted, so that a wrong type is found here and not in the controller."""
    return Heartbeat(
        broker_id=int(plain["broker"]),
        broker_epoch=int(plain["epoch"]),
        applied_height=int(plain["applied"]),
        wants_shutdown=bool(plain["stops"]),
        better_claims={
            (UUID(topic_id), int(index)): Completeness(value)
            for topic_id, index, value in plain.get("logs", ())
        },
    )


def _encode_beat_answer(answer: HeartbeatAnswer) -> bytes:
    return encode_body(
        {"known": answer.known_epoch, "fenced": answer.fenced, "may_stop": answer.may_stop}
    )


def _decode_beat_answer(plain: dict[str, Any]) -> HeartbeatAnswer:
    """All three are required: a missing `may_stop` read as False would keep a broker from
    stopping."""
    return HeartbeatAnswer(
        known_epoch=bool(plain["known"]),
        fenced=bool(plain["fenced"]),
        may_stop=bool(plain["may_stop"]),
    )


def _encode_discovered(found: Discovered) -> bytes:
    """JSON has no integer keys, so broker ids are texts."""
    addresses = {str(key): str(each) for key, each in found.addresses.items()}
    return encode_body(
        {"cluster": found.cluster_id, "leader": found.leader, "addresses": addresses}
    )


def _decode_discovered(plain: dict[str, Any]) -> Discovered:
    """Raises ValueError for an address without a port, which closes the connection."""
    return Discovered(
        cluster_id=str(plain["cluster"]),
        leader=int(plain["leader"]),
        addresses={int(key): parse_host_port(each) for key, each in plain["addresses"].items()},
    )


def _encode_propose_answer(answer: ProposeAnswer) -> bytes:
    """Empty texts are left out: no field at all means that the change is committed."""
    fields = {"refused": answer.refused, "failed": answer.failed}
    return encode_body({key: text for key, text in fields.items() if text})


def _decode_propose_answer(plain: dict[str, Any]) -> ProposeAnswer:
    """Tolerates null for a text, as for one that is missing."""
    return ProposeAnswer(
        refused=str(plain.get("refused") or ""), failed=str(plain.get("failed") or "")
    )


def _read_message(frame: Frame) -> Message:
    """A message of Raft by its own binary codec: appends carry blocks, and JSON would double
    them."""
    try:
        return decode_message(frame.body)
    except CorruptBlock as error:
        raise FrameError(f"an impossible message: {error}") from error


def _fields(read: Callable[[dict[str, Any]], T]) -> Callable[[Frame], T]:
    """A decoder of JSON fields, which raises FrameError."""

    def decode(frame: Frame) -> T:
        plain = frame.fields()
        try:
            return read(plain)
        # All that a JSON value of another shape can raise in `read`. The peer is authenticated by
        # now, but may be of another version.
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise FrameError(f"a {frame.kind.name} frame without its fields: {error!r}") from error

    return decode


class Codec(NamedTuple):
    """One row: encoder, decoder, and the kind of message for admission (None: an answer to a
    request of this broker, which is always admitted)."""

    encode: Callable[[Any], bytes]
    decode: Callable[[Frame], Said]
    speech: Speech | None


CODECS: dict[Kind, Codec] = {
    Kind.RAFT: Codec(encode_message, _read_message, Speech.RAFT),
    Kind.HEARTBEAT: Codec(_encode_beat, _fields(_decode_beat), Speech.HEARTBEAT),
    Kind.HEARTBEAT_ANSWER: Codec(
        _encode_beat_answer, _fields(_decode_beat_answer), Speech.HEARTBEAT_ANSWER
    ),
    Kind.DISCOVER: Codec(lambda _: b"{}", lambda _: Discover(), Speech.DISCOVER),
    Kind.DISCOVERED: Codec(_encode_discovered, _fields(_decode_discovered), None),
    Kind.PROPOSE: Codec(
        lambda said: bytes(said.change),
        lambda frame: ProposeChange(change=frame.body),
        Speech.PROPOSE,
    ),
    Kind.PROPOSE_ANSWER: Codec(_encode_propose_answer, _fields(_decode_propose_answer), None),
}

_KINDS: dict[type, Kind] = {
    Heartbeat: Kind.HEARTBEAT,
    HeartbeatAnswer: Kind.HEARTBEAT_ANSWER,
    Discover: Kind.DISCOVER,
    Discovered: Kind.DISCOVERED,
    ProposeChange: Kind.PROPOSE,
    ProposeAnswer: Kind.PROPOSE_ANSWER,
}
"""Every other message belongs to Raft."""
