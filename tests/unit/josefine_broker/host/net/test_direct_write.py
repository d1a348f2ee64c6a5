"""Bytes written past a transport arrive in order with those that it still has, and none is lost
where the socket takes a part, or nothing."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from josefine_broker.host.net.direct_write import descriptor_of, write_now


class Transport(asyncio.Transport):
    """Queues what it is given."""

    def __init__(self, sock: socket.socket | None) -> None:
        super().__init__({"socket": sock})
        self.queued = b""

    def get_write_buffer_size(self) -> int:
        return len(self.queued)

    def write(self, data: Any) -> None:
        self.queued += data


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_bytes_are_sent_at_once(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    transport = Transport(ours)
    write_now(transport, descriptor_of(transport), b"answer")
    assert transport.queued == b""
    assert theirs.recv(100) == b"answer"


def test_nothing_overtakes_what_is_queued(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    transport = Transport(ours)
    transport.write(b"first")
    write_now(transport, descriptor_of(transport), b"second")
    assert transport.queued == b"firstsecond"
    theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        theirs.recv(1)


def test_the_transport_sends_what_the_socket_does_not_take(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    transport, data = Transport(ours), os.urandom(4 << 20)
    write_now(transport, descriptor_of(transport), data)
    sent = len(data) - len(transport.queued)
    assert 0 < sent < len(data)
    assert theirs.recv(sent, socket.MSG_WAITALL) + transport.queued == data
    full = Transport(ours)
    while not full.queued:
        write_now(full, descriptor_of(full), b"x" * 4096)
    assert len(full.queued) <= 4096


def test_an_error_of_the_socket_is_left_to_the_transport(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    transport = Transport(ours)
    theirs.close()
    write_now(transport, descriptor_of(transport), b"answer")
    assert transport.queued == b"answer"


def test_a_transport_without_a_socket_sends_all_itself() -> None:
    transport = Transport(None)
    write_now(transport, descriptor_of(transport), b"answer")
    assert transport.queued == b"answer"
