"""The raft listener on real sockets: delivery, refusal, peers that come back or do not read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from random import Random

import pytest

from josefine_broker.base.addresses import HostPort, parse_host_port
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.cluster.frames import Frame, Hello, Kind, encode_frame
from josefine_broker.host.net.server import bind
from josefine_broker.host.peers.raft_connection import PeerError
from josefine_broker.host.peers.raft_link import Link
from josefine_broker.host.peers.raft_transport import RaftTransport, Reply
from tests.support.ports import free_ports
from tests.support.waiting import wait_until_async


class End:
    """One broker's end of the transport; what it gets is kept."""

    def __init__(self, node_id: int, cluster: str = "c") -> None:
        self.node_id = node_id
        self.got: list[tuple[int, bytes]] = []
        self.address = HostPort("127.0.0.1", 0)
        self.cluster = cluster
        self.members: tuple[int, ...] = ()
        self.greeted: list[tuple[int, tuple[int, ...], bool]] = []
        self.is_known: Callable[[int], bool] = lambda _peer: True
        self.transport = RaftTransport(
            hello=self._hello,
            book=AddressBook(),
            rng=Random(node_id),
            take=self._hear,
            timeout_ms=2_000,
            queue_bytes_max=1_000_000,
            is_known=lambda peer: self.is_known(peer),
            on_greeted=self._greeted,
        )

    def _greeted(self, peer: Hello, was_dialed: bool) -> None:
        self.greeted.append((peer.node_id, peer.members, was_dialed))
        if not was_dialed and self.is_known(peer.node_id):  # as engine.cluster.peers does
            self.transport.book.learn(peer.node_id, parse_host_port(peer.address))

    def _hello(self, to: int) -> Hello:
        address = str(self.address) if self.address.port else ""
        return Hello(
            node_id=self.node_id,
            to=to,
            cluster_id=self.cluster,
            address=address,
            members=self.members,
        )

    def _hear(self, peer: Hello, frame: Frame, reply: Reply) -> None:
        if frame.kind is Kind.DISCOVER:
            reply(Kind.DISCOVERED, b'{"asked_by": %d}' % peer.node_id)
        else:
            self.got.append((peer.node_id, frame.body))

    async def start(self) -> End:
        bound = bind("raft", "127.0.0.1", self.address.port)
        self.address = HostPort("127.0.0.1", bound.port)
        await self.transport.start(bound)
        return self

    def knows(self, other: End) -> None:
        self.transport.book.learn(other.node_id, other.address)


def test_frames_arrive_in_order_and_the_dialed_one_learns_the_way_back() -> None:
    async def scenario() -> None:
        one, two = await End(1).start(), await End(2).start()
        one.knows(two)
        for number in range(100):
            one.transport.send(2, Kind.RAFT, b"%d" % number)
        await wait_until_async(lambda: len(two.got) == 100, 60, "100 frames")
        assert two.got == [(1, b"%d" % number) for number in range(100)]
        two.transport.send(1, Kind.RAFT, b"back")
        await wait_until_async(lambda: one.got == [(2, b"back")], 60, "the way back")
        await one.transport.stop()
        await two.transport.stop()

    asyncio.run(scenario())


def test_name_that_means_nothing_is_the_trouble_with_its_peer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = socket.getaddrinfo

    def resolve(host: str, *rest: object, **more: object) -> object:
        if host == "two":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return known(host, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    async def scenario() -> None:
        one = await End(1).start()
        one.transport.book.learn(2, HostPort("two", 9192))
        assert one.transport.trouble_with(2) == ""
        one.transport.send(2, Kind.RAFT, b"a")
        await wait_until_async(lambda: bool(one.transport.trouble_with(2)), 60, "a dial")
        assert one.transport.trouble_with(2) == "two:9192: Name or service not known"
        await one.transport.stop()

    asyncio.run(scenario())


def test_name_that_no_name_service_could_be_asked_for_is_trouble_like_any_other() -> None:
    """It came from a registration, or in an answer: to dial it ends no dial that follows."""
    too_long = HostPort("a" * 64 + ".example", 9192)

    async def scenario() -> None:
        one, two = await End(1).start(), await End(2).start()
        with pytest.raises(PeerError, match=str(too_long)):
            await one.transport.ask(too_long, Kind.DISCOVER, b"{}", 10)
        one.knows(two)
        one.transport.book.learn(2, too_long)  # the newest is tried first
        one.transport.send(2, Kind.RAFT, b"a")
        await wait_until_async(lambda: two.got == [(1, b"a")], 60, "the other address")
        await one.transport.stop()
        await two.transport.stop()

    asyncio.run(scenario())


def test_only_the_refusal_of_a_peer_that_was_dialed_is_one() -> None:
    """What a stranger says when it dials, and this broker refuses, is nobody's word."""
    lie = "broker 1 votes in this cluster, but came with an empty data directory"
    liar = Hello(node_id=9, to=0, cluster_id="", address=lie)

    async def scenario() -> None:
        heard: list[tuple[int, str]] = []
        one, two = await End(1, "red").start(), await End(2, "blue").start()
        one.transport.on_refused = lambda peer, reason: heard.append((peer, reason))
        reader, writer = await asyncio.open_connection(*one.address)
        writer.write(liar.encode(Kind.HELLO))
        assert await reader.read() == b""
        writer.close()
        await wait_until_async(lambda: one.transport.stats.refused == 1, 60, "a refusal of ours")
        assert heard == []

        one.knows(two)
        one.transport.send(2, Kind.RAFT, b"a")
        await wait_until_async(lambda: heard, 60, "a refusal of theirs")
        assert heard[0][0] == 2
        assert "belongs to cluster red" in heard[0][1]
        await one.transport.stop()
        await two.transport.stop()

    asyncio.run(scenario())


def test_peer_that_comes_back_is_dialed_again() -> None:
    async def scenario() -> None:
        one, two = await End(1).start(), End(2)
        two.address = HostPort("127.0.0.1", free_ports(1)[0])
        await two.start()
        one.knows(two)
        one.transport.send(2, Kind.RAFT, b"a")
        await wait_until_async(lambda: two.got == [(1, b"a")], 60, "the first frame")
        await two.transport.stop()
        await wait_until_async(lambda: not one.transport.is_connected(2), 60, "the loss")
        again = End(2)
        again.address = two.address
        await again.start()
        one.transport.send(2, Kind.RAFT, b"b")
        await wait_until_async(lambda: (1, b"b") in again.got, 60, "a frame after the return")
        await one.transport.stop()
        await again.transport.stop()

    asyncio.run(scenario())


def test_foreign_cluster_is_refused_with_one_line_on_both_sides(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        one, two = await End(1, "red").start(), await End(2, "blue").start()
        one.knows(two)
        one.transport.send(2, Kind.RAFT, b"a")
        refusals = (one.transport.stats, two.transport.stats)
        await wait_until_async(lambda: all(s.refused >= 3 for s in refusals), 60, "refusals")
        assert two.got == []
        await one.transport.stop()
        await two.transport.stop()

    asyncio.run(scenario())
    reasons = [r.__dict__["reason"] for r in caplog.records if "not accepted" in r.message]
    expected = "broker 1 belongs to cluster red, broker 2 to cluster blue"
    assert len(reasons) == 2, reasons
    assert all(reason.endswith(expected) for reason in reasons)


def test_peer_that_does_not_read_costs_a_bounded_queue() -> None:
    async def scenario() -> None:
        one = await End(1).start()
        deaf = socket.create_server(("127.0.0.1", 0))
        one.transport.book.learn(2, HostPort("127.0.0.1", deaf.getsockname()[1]))
        for _ in range(40):
            one.transport.send(2, Kind.RAFT, bytes(100_000))
        assert one.transport.stats.frames_dropped >= 30
        assert not one.transport.is_connected(2)
        deaf.close()
        await one.transport.stop()

    asyncio.run(scenario())


def test_full_queue_drops_its_oldest_frames() -> None:
    async def scenario() -> None:
        one, two = await End(1).start(), End(2)
        bound = bind("raft", "127.0.0.1", 0)
        two.address = HostPort("127.0.0.1", bound.port)
        one.knows(two)
        for number in range(40):
            one.transport.send(2, Kind.RAFT, b"%d" % number + bytes(100_000))
        await two.transport.start(bound)
        await wait_until_async(lambda: len(two.got) == 9, 60, "as many frames as fit")
        numbers = [int(body.rstrip(bytes(1))) for _, body in two.got]
        assert numbers == list(range(31, 40))
        assert one.transport.stats.frames_dropped == 31
        await one.transport.stop()
        await two.transport.stop()

    asyncio.run(scenario())


def test_connection_that_carries_nothing_is_given_up() -> None:
    async def scenario() -> None:
        one, two = await End(1).start(), await End(2).start()
        link = Link(
            2,
            addresses=lambda: (two.address,),
            dial=lambda address: one.transport.dial(address, 2, lambda _connection, _frame: None),
            on_refused=lambda: None,
            stats=one.transport.stats,
            rng=Random(1),
            queue_bytes_max=1_000,
            idle_s=0.3,
        )
        task = asyncio.create_task(link.run())
        link.send(encode_frame(Kind.RAFT, b"a"))
        await wait_until_async(lambda: two.got == [(1, b"a")], 60, "the frame")
        async with asyncio.timeout(60):
            await task
        assert not link.is_connected
        assert one.transport.stats.connected == 0
        await one.transport.stop()
        await two.transport.stop()

    asyncio.run(scenario())


def test_question_over_a_connection_of_its_own_is_answered_or_refused() -> None:
    async def scenario() -> None:
        one, two = await End(1).start(), await End(2).start()
        frame = await one.transport.ask(two.address, Kind.DISCOVER, b"{}", 5)
        assert frame.fields() == {"asked_by": 1}
        stranger = await End(3, "other").start()
        with pytest.raises(PeerError, match="refused: broker 3 belongs to cluster other"):
            await stranger.transport.ask(two.address, Kind.DISCOVER, b"{}", 5)
        await two.transport.stop()
        with pytest.raises(PeerError):
            await one.transport.ask(two.address, Kind.DISCOVER, b"{}", 5)
        await one.transport.stop()
        await stranger.transport.stop()

    asyncio.run(scenario())


def test_question_to_a_port_that_speaks_no_raft_says_so() -> None:
    async def scenario() -> None:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.close()

        foreign = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        address = HostPort("127.0.0.1", foreign.sockets[0].getsockname()[1])
        one = await End(1).start()
        with pytest.raises(PeerError, match=r"the other side \(perhaps it is no raft listener, or"):
            await one.transport.ask(address, Kind.DISCOVER, b"{}", 5)
        await one.transport.stop()
        foreign.close()

    asyncio.run(scenario())
