"""The greeting and the frames of the raft listener: what is accepted, what is refused, in words."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from josefine_broker.engine.cluster.frames import (
    FRAME_BYTES_MAX,
    FrameError,
    Hello,
    Kind,
    Phase,
    Session,
    encode_fields,
    encode_frame,
)


def hello(node: int, to: int = 0, cluster: str = "c", **versions: int) -> Hello:
    return Hello(node_id=node, to=to, cluster_id=cluster, address=f"h:{node}", **versions)


def greet(dialer: Hello, acceptor: Hello) -> tuple[Session, Session]:
    """Two sessions after their greeting. Raises FrameError as the dialer does."""
    one, two = Session(dialer, dials=True), Session(acceptor, dials=False)
    try:
        two.feed(one.take_outgoing())
    finally:
        one.feed(two.take_outgoing())
    return one, two


def test_frames_flow_after_the_greeting_in_any_pieces() -> None:
    one, two = greet(hello(1, to=2), hello(2))
    data = encode_frame(Kind.RAFT, b"abc") + encode_frame(Kind.HEARTBEAT, b"{}")
    whole = two.feed(data)
    for cut in range(len(data)):
        pieces = one.feed(data[:cut]) + one.feed(data[cut:])
        assert pieces == whole
    assert [frame.kind for frame in whole] == [Kind.RAFT, Kind.HEARTBEAT]
    assert two.peer == hello(1, to=2)


@pytest.mark.parametrize(
    ("dialer", "reason"),
    [
        (hello(1, cluster="other"), "broker 1 belongs to cluster other, broker 2 to cluster c"),
        (replace(hello(2), address="elsewhere:1"), "two brokers have the id 2"),
        (hello(2, to=3), "the address of broker 3 leads to broker 2 itself"),
        (hello(2), "this is broker 2 itself"),
        (hello(1, to=3), "this is broker 2, not broker 3"),
        (
            hello(1, version_min=2, version=3),
            "broker 1 speaks raft frames 2 to 3, broker 2 1 to 1",
        ),
    ],
)
def test_refusal_is_the_same_sentence_on_both_sides(dialer: Hello, reason: str) -> None:
    one, two = Session(dialer, dials=True), Session(hello(2), dials=False)
    with pytest.raises(FrameError, match=f"^{reason}$"):
        two.feed(one.take_outgoing())
    with pytest.raises(FrameError, match=f"^refused: {reason}$"):
        one.feed(two.take_outgoing())
    assert (one.phase, two.phase) == (Phase.OVER, Phase.OVER)


def test_newest_common_version_is_spoken() -> None:
    one, two = greet(hello(1, version=4), hello(2, version=3))
    assert (one.version, two.version) == (3, 3)


def test_broker_without_a_cluster_is_let_in() -> None:
    _, two = greet(hello(1, cluster=""), hello(2))
    assert two.phase is Phase.OPEN


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "the peer is not a Josefine broker"),
        (encode_frame(Kind.RAFT, b""), "a RAFT frame before the greeting"),
        (encode_frame(Kind.HELLO, b"[]"), "not a JSON object"),
        (encode_frame(Kind.HELLO, b"{"), "not JSON"),
        (encode_fields(Kind.HELLO, {"magic": "x"}), "another protocol"),
        (encode_fields(Kind.HELLO, {"magic": "josefine-raft"}), "without its fields"),
        ((7).to_bytes(4, "big") + b"\0\1\xff" + bytes(4), "unknown kind 255"),
        ((FRAME_BYTES_MAX + 1).to_bytes(4, "big") + b"\0\1\1", "not a Josefine broker"),
    ],
)
def test_what_is_no_greeting_ends_the_connection(data: bytes, reason: str) -> None:
    session = Session(hello(2), dials=False)
    with pytest.raises(FrameError, match=reason):
        session.feed(data)
    assert session.phase is Phase.OVER
    assert session.feed(data) == []


def test_random_bytes_raise_nothing_but_frame_errors() -> None:
    for seed in range(2_000):
        rng = Random(seed)
        session = Session(hello(2), dials=False)
        data = bytearray(hello(1).encode(Kind.HELLO) + encode_frame(Kind.RAFT, b"x" * 9))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            session.feed(data)
        except FrameError:
            assert session.phase is Phase.OVER
