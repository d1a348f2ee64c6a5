"""The raft listener on real sockets: delivery, refusal, peers that come back or do not read."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random

import pytest

from josefine_broker.config import HostPort
from josefine_broker.core.changes import RegisterBroker
from josefine_broker.joining import AskingAround, Joining
from josefine_broker.shell.address_book import AddressBook
from josefine_broker.shell.raft_connection import PeerError
from josefine_broker.shell.raft_frames import Frame, Hello, Kind, encode_frame
from josefine_broker.shell.raft_link import Link
from josefine_broker.shell.raft_transport import RaftTransport, Reply
from josefine_broker.shell.server import bind
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
            book=AddressBook(None),
            rng=Random(node_id),
            handlers={Kind.RAFT: self._take, Kind.DISCOVER: self._answer},
            timeout_ms=2_000,
            queue_bytes_max=1_000_000,
            is_known=lambda peer: self.is_known(peer),
            on_greeted=self._greeted,
        )

    def _greeted(self, peer: Hello, was_dialed: bool) -> None:
        self.greeted.append((peer.node_id, peer.members, was_dialed))

    def _hello(self, to: int) -> Hello:
        address = str(self.address) if self.address.port else ""
        return Hello(
            node_id=self.node_id,
            to=to,
            cluster_id=self.cluster,
            address=address,
            members=self.members,
        )

    def _take(self, peer: Hello, frame: Frame, _reply: Reply) -> None:
        self.got.append((peer.node_id, frame.body))

    def _answer(self, peer: Hello, _frame: Frame, reply: Reply) -> None:
        reply(Kind.DISCOVERED, b'{"asked_by": %d}' % peer.node_id)

    async def start(self) -> End:
        bound = bind("raft", "127.0.0.1", self.address.port)
        self.address = HostPort("127.0.0.1", bound.port)
        await self.transport.start(bound)
        return self

    def knows(self, other: End) -> None:
        self.transport.book.learn(other.node_id, other.address)


def run(scenario: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(scenario())


def test_frames_arrive_in_order_and_the_dialed_one_learns_the_way_back() -> None:
    async def scenario() -> None:
        one, two = await End(1).start(), await End(2).start()
        one.knows(two)
        for number in range(100):
            one.transport.send(2, Kind.RAFT, b"%d" % number)
        await wait_until_async(lambda: len(two.got) == 100, 10, "100 frames")
        assert two.got == [(1, b"%d" % number) for number in range(100)]
        two.transport.send(1, Kind.RAFT, b"back")
        await wait_until_async(lambda: one.got == [(2, b"back")], 10, "the way back")
        await one.transport.stop()
        await two.transport.stop()

    run(scenario)


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
        await wait_until_async(lambda: bool(one.transport.trouble_with(2)), 10, "a dial")
        assert one.transport.trouble_with(2) == "two:9192: Name or service not known"
        await one.transport.stop()

    run(scenario)


def test_asking_around_hears_from_known_brokers_who_the_others_are() -> None:
    """A broker that was away while members changed does not know its leader."""

    async def scenario() -> None:
        away, known = await End(1).start(), await End(3).start()
        known.members = (1, 3, 4)
        away.knows(known)
        away.knows(away)
        away.transport.book.learn(2, HostPort("127.0.0.1", 1))  # nobody listens there any more
        asking = AskingAround(away.transport, 1, ())
        asking.begin()
        asking.begin()
        await wait_until_async(lambda: away.greeted, 10, "a greeting")
        assert away.greeted == [(3, (1, 3, 4), True)]
        assert known.greeted == [(1, (), False)]
        await asking.stop()
        await away.transport.stop()
        await known.transport.stop()

    run(scenario)


def test_strangers_addresses_are_not_learned() -> None:
    async def scenario() -> None:
        one, stranger = await End(1).start(), await End(77).start()
        one.is_known = lambda peer: peer != 77
        stranger.knows(one)
        stranger.transport.send(1, Kind.DISCOVER, b"{}")
        await wait_until_async(lambda: one.greeted, 10, "a greeting")
        assert one.transport.book.addresses(77) == ()
        await one.transport.stop()
        await stranger.transport.stop()

    run(scenario)


def test_peer_that_comes_back_is_dialed_again() -> None:
    async def scenario() -> None:
        one, two = await End(1).start(), await End(2).start()
        one.knows(two)
        one.transport.send(2, Kind.RAFT, b"a")
        await wait_until_async(lambda: two.got == [(1, b"a")], 10, "the first frame")
        await two.transport.stop()
        await wait_until_async(lambda: not one.transport.is_connected(2), 10, "the loss")
        again = End(2)
        again.address = two.address
        await again.start()
        one.transport.send(2, Kind.RAFT, b"b")
        await wait_until_async(lambda: (1, b"b") in again.got, 10, "a frame after the return")
        await one.transport.stop()
        await again.transport.stop()

    run(scenario)


def test_foreign_cluster_is_refused_with_one_line_on_both_sides(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        one, two = await End(1, "red").start(), await End(2, "blue").start()
        one.knows(two)
        one.transport.send(2, Kind.RAFT, b"a")
        refusals = (one.transport.stats, two.transport.stats)
        await wait_until_async(lambda: all(s.refused >= 3 for s in refusals), 10, "refusals")
        assert two.got == []
        await one.transport.stop()
        await two.transport.stop()

    run(scenario)
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

    run(scenario)


def test_full_queue_drops_its_oldest_frames() -> None:
    async def scenario() -> None:
        one, two = await End(1).start(), End(2)
        bound = bind("raft", "127.0.0.1", 0)
        two.address = HostPort("127.0.0.1", bound.port)
        one.knows(two)
        for number in range(40):
            one.transport.send(2, Kind.RAFT, b"%d" % number + bytes(100_000))
        await two.transport.start(bound)
        await wait_until_async(lambda: len(two.got) == 9, 10, "as many frames as fit")
        numbers = [int(body.rstrip(bytes(1))) for _, body in two.got]
        assert numbers == list(range(31, 40))
        assert one.transport.stats.frames_dropped == 31
        await one.transport.stop()
        await two.transport.stop()

    run(scenario)


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
        await wait_until_async(lambda: two.got == [(1, b"a")], 10, "the frame")
        async with asyncio.timeout(10):
            await task
        assert not link.is_connected
        assert one.transport.stats.connected == 0
        await one.transport.stop()
        await two.transport.stop()

    run(scenario)


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

    run(scenario)


def test_newcomer_at_a_port_that_speaks_no_raft_is_told_so_and_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.close()

        foreign = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        seed = HostPort("127.0.0.1", foreign.sockets[0].getsockname()[1])
        one = await End(1).start()
        wanted = iter((True, True, True, False))
        over = asyncio.Event()

        def is_wanted() -> bool:
            goes_on = next(wanted)
            if not goes_on:
                over.set()
            return goes_on

        joining = Joining(
            one.transport,
            RegisterBroker(broker_id=1, incarnation="i", endpoints=()),
            seeds=(seed,),
            is_wanted=is_wanted,
            is_member=lambda: False,
            on_refused=lambda _: None,
        )
        joining.begin()
        async with asyncio.timeout(30):
            await over.wait()
        await joining.stop()
        await one.transport.stop()
        foreign.close()

    run(scenario)
    (told,) = (each for each in caplog.records if each.getMessage() == "not joined yet")
    assert "closed by the other side (perhaps it is no raft listener)" in told.__dict__["reason"]


def test_address_book_survives_and_tries_the_newest_first(tmp_path: Path) -> None:
    path = tmp_path / "raft.peers.json"
    book = AddressBook(path)
    for port in (1, 2, 1):
        book.learn(7, HostPort("a", port))
    book.store()

    again = AddressBook(path)
    again.learn(7, HostPort("configured", 9))
    again.load()

    assert again.addresses(7) == (HostPort("a", 1), HostPort("a", 2), HostPort("configured", 9))
    path.write_text(json.dumps({"version": 2, "nodes": {}}))
    ignoring = AddressBook(path)
    ignoring.load()
    assert ignoring.addresses(7) == ()
