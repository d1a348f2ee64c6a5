"""A follower's plain fetch, ahead of the codec: what it leaves to the route."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.api.plain_replica_fetch import fetch_for_follower
from josefine_broker.host.net.dispatch import Peer
from tests.unit.josefine_broker.api.replicas import Replicas

FETCH_17 = b"\0\x01\0\x11"
PEER = Peer(listener="PLAINTEXT", address="127.0.0.1:5")


@pytest.mark.parametrize(
    "rest", [b"", b"\0\0\0\x01\0\x09abc", b"\0\0\0\x01\xff\xfe", b"\0\0\0\x01\0\x01\xff\0"]
)
def test_a_frame_whose_header_is_damaged_is_left_to_the_route(rest: bytes) -> None:
    def handle(header: Any, request: Any) -> Any:
        raise AssertionError("the frame has no request")

    ctx = Replicas().ctx[1]
    assert fetch_for_follower(ctx, memoryview(FETCH_17 + rest), PEER, handle) is None
