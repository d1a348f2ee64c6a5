"""What a link makes of dials that fail; what it carries is in test_raft_transport.py."""

import asyncio
from collections.abc import Coroutine
from random import Random

import pytest

from josefine_broker.base.addresses import HostPort
from josefine_broker.host.peers.raft_connection import Connection, PeerError, TransportStats
from josefine_broker.host.peers.raft_link import Link
from tests.support.waiting import wait_until_async

NEW, OLD = HostPort("new", 1), HostPort("old", 1)


class Network:
    """No address answers; some say that nobody listens there."""

    def __init__(self, *refusing: HostPort, idle_s: float = 60.0) -> None:
        self.refusing = set(refusing)
        self.dialed: list[HostPort] = []
        self.told = 0
        self.stats = TransportStats()
        self.link = Link(
            2,
            addresses=lambda: (NEW, OLD),
            dial=self._dial,
            on_refused=self._tell,
            stats=self.stats,
            rng=Random(1),
            queue_bytes_max=100,
            idle_s=idle_s,
        )

    async def _dial(self, address: HostPort) -> Connection:
        self.dialed.append(address)
        error = PeerError(f"{address}: no answer")
        error.is_refused = address in self.refusing
        raise error

    def _tell(self) -> None:
        self.told += 1

    async def reach_rounds(self, rounds: int) -> None:
        await wait_until_async(lambda: len(self.dialed) >= 2 * rounds, 60, "the dials")

    async def run(self, until: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(self.link.run())
        await until
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Steady(asyncio.SelectorEventLoop):
    """A loop on whose clock it is no time while the machine lets this process wait."""

    _now_s = _seen_s = 0.0

    def time(self) -> float:
        before_s, self._seen_s = self._seen_s, super().time()
        self._now_s += min(self._seen_s - before_s, 0.05)
        return self._now_s


@pytest.mark.parametrize(
    ("refusing", "is_refused"), [((NEW, OLD), True), ((NEW,), False), ((OLD,), False), ((), False)]
)
def test_peer_is_refused_when_nobody_listens_at_any_address(
    refusing: tuple[HostPort, ...], is_refused: bool
) -> None:
    network = Network(*refusing)

    asyncio.run(network.run(network.reach_rounds(2)))

    assert network.link.is_refused == is_refused
    assert (network.told >= 2) == is_refused


def test_link_knows_why_its_peer_is_not_reached() -> None:
    network = Network()
    assert network.link.trouble == ""

    asyncio.run(network.run(network.reach_rounds(1)))

    assert network.link.trouble == f"{NEW}: no answer"


def test_every_round_tries_all_addresses_in_their_order() -> None:
    network = Network()

    asyncio.run(network.run(network.reach_rounds(3)))

    assert network.dialed[:6] == [NEW, OLD] * 3
    assert network.stats.dials_failed == len(network.dialed)


def test_peer_that_shows_itself_is_dialed_at_once() -> None:
    """A hundred rounds, each asked for: the waits between them alone would take over 50 s."""

    network = Network()

    async def poke_often() -> None:
        async with asyncio.timeout(40):
            for rounds in range(1, 101):
                await network.reach_rounds(rounds)
                network.link.poke()

    asyncio.run(network.run(poke_often()))


def test_link_that_nobody_uses_ends_though_nobody_ever_answered() -> None:
    network = Network(idle_s=0.5)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(network.link.run())
        end = loop.time() + 1

        def use() -> bool:
            network.link.send(b"a frame")
            return loop.time() > end

        await wait_until_async(use, 10, "twice the idle time")
        assert not task.done()
        await wait_until_async(task.done, 60, "its end")

    with asyncio.Runner(loop_factory=Steady) as runner:
        runner.run(scenario())
