"""Damaged greetings, heartbeats, questions and registrations, from the bytes of a connection on.

    python -m tests.simulation.fuzz_sessions 100000

Each goes the way that it goes in a broker: Session, decoder, door, the controller or the image. A
FrameError ends the connection; anything else that is raised is a fault of ours.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from random import Random
from typing import Any

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.cluster.admission import STRANGER_FRAME_BYTES_MAX, why_not_payload
from josefine_broker.engine.cluster.frames import (
    Frame,
    FrameError,
    Hello,
    Kind,
    Session,
    encode_frame,
)
from josefine_broker.engine.cluster.messages import (
    Discover,
    Discovered,
    ProposeChange,
    decode_said,
    encode_said,
)
from josefine_broker.engine.controller.controller import (
    Controller,
    ControllerConfig,
    Heartbeat,
    HeartbeatAnswer,
)
from josefine_broker.engine.metadata.apply import apply
from josefine_broker.engine.metadata.change_codec import decode_change
from josefine_broker.engine.metadata.changes import At
from josefine_broker.engine.metadata.image import MetadataImage
from tests.simulation.fuzz import change, main
from tests.simulation.mutated_frames import damaged_bytes

__all__ = ["attack_sessions"]

REASON_CHARS_MAX = 3_000
OWN = Hello(node_id=1, to=0, cluster_id="c", address="127.0.0.1:9093", members=(1, 2, 3))
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2**31, 2**63, 10**400, float("inf"), float("nan"), "", "x" * 400,
    "a\nb", "\0", "host:99999", [], {}, [[]], {"a": {}}, ["1"], "９",
)  # fmt: skip


def damaged_json(rng: Random, plain: Any) -> Any:
    """Some value in it is another."""
    if rng.random() < 0.3 or not isinstance(plain, dict | list) or not plain:
        return rng.choice(VALUES)
    if isinstance(plain, list):
        at = rng.randrange(len(plain))
        if rng.random() < 0.2:
            return plain[:at]
        return [*plain[:at], damaged_json(rng, plain[at]), *plain[at + 1 :]]
    key = rng.choice(list(plain))
    if rng.random() < 0.2:
        return {name: value for name, value in plain.items() if name != key}
    return {**plain, key: damaged_json(rng, plain[key])}


def _body(rng: Random, body: bytes) -> bytes:
    kind = rng.random()
    if kind < 0.05:
        return rng.choice((b"[", b'{"a":')) * 50_000
    if kind < 0.35:
        return damaged_bytes(rng, body)
    return json.dumps(damaged_json(rng, json.loads(body))).encode()


def _frames(rng: Random) -> list[tuple[Kind, bytes]]:
    """A conversation as a broker has it."""
    number = rng.randrange(1, 9)
    hello = Hello(node_id=number + 1, to=1, cluster_id="c", address="h:1", members=(1, 2))
    beat = Heartbeat(broker_id=number, broker_epoch=3, applied_height=8)
    answer = HeartbeatAnswer(known_epoch=True, fenced=False, may_stop=False)
    found = Discovered(cluster_id="c", leader=1, addresses={1: HostPort("h", 1)})
    return [
        (Kind.HELLO, hello.encode(Kind.HELLO)[7:]),
        encode_said(beat),
        encode_said(answer),
        encode_said(Discover()),
        encode_said(found),
        encode_said(ProposeChange(change=change(rng))),
    ]


class Ear:
    """The part of a broker that hears."""

    def __init__(self) -> None:
        self.image = MetadataImage(cluster_id="c")
        self.controller = Controller(1, ControllerConfig())
        self.controller.lead(1, self.image, 0)
        self.height = 0

    def take(self, frame: Frame) -> None:
        """Raises FrameError."""
        said = decode_said(frame)
        if isinstance(said, Heartbeat):
            encode_said(self.controller.heartbeat(said, self.image, 0))
        elif isinstance(said, ProposeChange) and why_not_payload(said.change) is None:
            self._commit(said.change)

    def _commit(self, payload: bytes) -> None:
        """As every broker does, which stops when it cannot."""
        self.height += 1
        changed, _ = decode_change(payload)
        try:
            self.image = apply(self.image, changed, At(1, self.height))
        except KafkaError:
            return
        assert MetadataImage.from_bytes(self.image.to_bytes()) == self.image
        if len(self.image.brokers) > 50:
            self.image = MetadataImage(cluster_id="c")


def attack(rng: Random, ear: Ear) -> str:
    """A conversation with one damaged frame; what became of it."""
    frames = _frames(rng)
    at = rng.randrange(len(frames))
    stream = b""
    for number, (kind, body) in enumerate(frames):
        data = encode_frame(kind, _body(rng, body) if number == at else body)
        if number == at and rng.random() < 0.2:
            data = damaged_bytes(rng, data)
        stream += data
    session = Session(OWN, dials=False, frame_bytes_max=lambda _peer: STRANGER_FRAME_BYTES_MAX)
    taken = 0
    try:
        while stream:
            size = rng.choice((1, 7, 100, 100_000))
            for frame in session.feed(stream[:size]):
                ear.take(frame)
                taken += 1
            stream = stream[size:]
    except FrameError as error:
        if len(str(error)) > REASON_CHARS_MAX:
            raise AssertionError("a stranger's words fill the log") from error
        return "refused" if taken else "refused at once"
    return "taken" if taken == len(frames) - 1 else "not whole"


def attack_sessions(seed: int, attacks: int) -> Counter[str]:
    met: Counter[str] = Counter()
    ear = Ear()
    for number in range(attacks):
        rng = Random(f"{seed} {number}")
        try:
            met[attack(rng, ear)] += 1
        except BaseException as error:
            error.add_note(f"attack(Random('{seed} {number}'), Ear())")
            raise
    return met


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], attack_sessions, "Say damaged frames to a session."))
