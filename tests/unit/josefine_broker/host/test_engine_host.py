"""The asyncio host: it starts, proposes, and ends by what no broker survives."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.events import Ready
from josefine_broker.host.clock import RealClock
from josefine_broker.host.disk.data_dir import DataDirError
from raft import Refused, Result, Role
from tests.unit.josefine_broker.engine.hosts import OTHERS_ARE_AWAY, Hosted, running, serving
from tests.unit.josefine_broker.engine.scenes import topic

SOON = 60.0


def test_start_returns_when_the_recovered_chain_is_applied(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(300)]

    async def first() -> None:
        async with serving(tmp_path) as one:
            await asyncio.gather(*(one.submit(topic(each)) for each in names))

    async def second() -> None:
        async with running(tmp_path) as one:
            assert one.topics == names
            status = one.broker.quorum.status()
            assert (status.role, status.leader, status.cluster_id) == (Role.LEADER, 1, "named-by-1")
            assert status.applied == status.commit == status.head
            assert set(one.noted) == {"named-by-1"}

    asyncio.run(first())
    asyncio.run(second())


def test_a_change_is_answered_after_its_block_is_applied(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as one:
            at_end: list[list[str]] = []
            first = one.propose(topic("first"), lambda: at_end.append(one.topics))
            assert not first.done()

            second = await one.submit(topic("second"))

            assert (first.result(), at_end[0][0]) == (Result.COMMITTED, "first")
            assert second.error is None
            assert one.topics == ["first", "second"]

    asyncio.run(main())


def test_a_proposal_without_a_leader_ends_at_its_deadline(tmp_path: Path) -> None:
    """Checklist row 11."""

    async def main() -> None:
        async with running(tmp_path, voters=OTHERS_ARE_AWAY) as one:
            result = await asyncio.wait_for(one.propose(topic("a"), timeout_ms=50), SOON)

            assert result is Result.DEAD

    asyncio.run(main())


def test_too_large_a_proposal_is_refused_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as one:
            with pytest.raises(Refused):
                one.broker.quorum.propose_once(bytes(9 * 1024 * 1024), 10**12, lambda _: None)
            with pytest.raises(KafkaError) as caught:
                one.broker.quorum.propose(bytes(9 * 1024 * 1024), 10**12)
            assert caught.value.code is ErrorCode.request_timed_out

    asyncio.run(main())


def test_a_cluster_that_cannot_be_noted_ends_the_host_once_and_before_it_is_named(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        one = Hosted(tmp_path)

        def refuse(_cluster_id: str) -> None:
            raise DataDirError("it belongs to another cluster")

        one.host._on_belongs = refuse
        with pytest.raises(DataDirError, match="another cluster"):
            await one.start()
        assert one.failures == [one.host.failure]
        assert one.broker.ready() == Ready()
        await one.host.stop()

    asyncio.run(main())


class StumblingClock(RealClock):
    """Goes back when it is told to: with that no broker can reckon."""

    def __init__(self) -> None:
        self.back_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() - self.back_ms


def test_what_no_word_of_a_peer_may_do_ends_the_host_and_not_only_the_connection(
    tmp_path: Path,
) -> None:
    """Half a step is done then: nobody knows of what."""

    async def main() -> None:
        clock = StumblingClock()
        async with running(tmp_path, voters=OTHERS_ARE_AWAY, clock=clock) as one:
            clock.back_ms = 60_000

            one.hears_vote_request(7)

            assert isinstance(one.host.failure, AssertionError)
            assert one.failures == [one.host.failure]

    asyncio.run(main())
