"""Several hosts on real disks and sockets: birth, the same image, new members, a way out."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from josefine_broker.engine.cluster.enrolment import Place
from josefine_broker.engine.cluster.frames import Hello, Kind
from josefine_broker.engine.metadata_quorum.quorum import SnapshotLimits
from tests.support.waiting import wait_until_async
from tests.unit.josefine_broker.engine.hosts import Hosted, address_of, listener
from tests.unit.josefine_broker.engine.scenes import topic

SOON = 60.0


async def started(stack: AsyncExitStack, one: Hosted) -> Hosted:
    """It runs until the end of the test."""
    if one.bound is not None:
        stack.callback(one.bound.socket.close)
    stack.push_async_callback(one.host.stop)
    return await one.start()


async def leader_of(group: list[Hosted]) -> Hosted:
    """The one that all name: on a busy machine another may be elected just now."""

    def named() -> list[Hosted]:
        leaders = {each.broker.quorum.status().leader for each in group}
        return [each for each in group if leaders == {each.id}]

    return (await wait_until_async(named, SOON, "one leader"))[0]


def test_three_hosts_are_born_as_one_cluster_and_a_fourth_joins(tmp_path: Path) -> None:
    """Checklist rows 1, 11 and 16."""

    async def scenario(stack: AsyncExitStack) -> None:
        bounds = {id_: listener() for id_ in (1, 2, 3)}
        voters = {id_: address_of(bound) for id_, bound in bounds.items()}
        group = [
            Hosted(tmp_path / str(id_), id_, voters=voters, bound=bound)
            for id_, bound in bounds.items()
        ]
        for each in group:
            (tmp_path / str(each.id)).mkdir()
        await asyncio.gather(*(started(stack, each) for each in group))
        await asyncio.wait_for(asyncio.gather(*(each.enrol() for each in group)), SOON)
        (cluster_id,) = {each for one in group for each in one.noted}

        changes = [each.submit(topic(f"by-{each.id}")) for each in group]  # any of them takes one
        done = await asyncio.wait_for(asyncio.gather(*changes), SOON)
        assert [each.error for each in done] == [None, None, None]
        everywhere = {"by-1", "by-2", "by-3"}
        await wait_until_async(
            lambda: all(set(each.topics) == everywhere for each in group), SOON, "three topics"
        )

        (tmp_path / "4").mkdir()
        joiner = Hosted(tmp_path / "4", 4, seeds=(voters[1], voters[2]), bound=listener())
        await started(stack, joiner)
        await asyncio.wait_for(joiner.enrol(), SOON)
        assert set(joiner.noted) == {cluster_id}
        # Its disk may say so before it leads or counts: killed meanwhile, it is still believed.
        assert joiner.registered_at == [Place.FENCED]
        assert set(joiner.topics) == everywhere

        leader = await leader_of(group)
        await leader.host.leave(SOON)
        assert leader.broker.has_left
        rest = [each for each in group if each is not leader]
        await wait_until_async(
            lambda: [1 for each in rest if each.broker.controlling.leads], SOON, "a successor"
        )
        assert [each.host.failure for each in (*group, joiner)] == [None] * 4

    asyncio.run(_with_stack(scenario))


async def _with_stack(scenario) -> None:
    async with AsyncExitStack() as stack:
        await scenario(stack)


def test_who_joins_by_a_snapshot_learns_whose_it_is(tmp_path: Path) -> None:
    """Only the snapshot says so. A broker that never heard it greets as one that lost its data."""

    async def scenario(stack: AsyncExitStack) -> None:
        for id_ in (1, 2):
            (tmp_path / str(id_)).mkdir()
        limits = SnapshotLimits(blocks=5)
        first = await Hosted(tmp_path / "1", snapshots=limits).start()
        await first.enrol()
        for number in range(10):
            await first.submit(topic(f"t{number}"))
        assert first.broker.quorum.snapshots
        await first.host.stop()
        bound = listener()
        founder = Hosted(tmp_path / "1", snapshots=limits, cluster_id="named-by-1", bound=bound)
        await started(stack, founder)  # without the blocks below the snapshot in memory
        await founder.enrol()

        joiner = Hosted(tmp_path / "2", 2, seeds=(address_of(bound),), bound=listener())
        await started(stack, joiner)
        await asyncio.wait_for(joiner.enrol(), SOON)

        assert joiner.broker.quorum.status().root.height > 0
        assert set(joiner.noted) == {"named-by-1"}
        assert set(joiner.topics) == set(founder.topics)
        assert joiner.broker.hello(0).cluster_id == "named-by-1"

    asyncio.run(_with_stack(scenario))


def test_what_a_stranger_says_who_dials_ends_no_broker_that_is_in_no_cluster_yet(
    tmp_path: Path,
) -> None:
    """Whom it dialed itself may tell it that it has lost its data, and must stop; nobody else."""
    lie = "broker 1 votes in this cluster, but came with an empty data directory"

    async def scenario(stack: AsyncExitStack) -> None:
        bound = listener()
        waiting = Hosted(tmp_path, seeds=(address_of(bound),), bound=bound)
        await started(stack, waiting)
        enrolling = asyncio.ensure_future(waiting.enrol())
        reader, writer = await asyncio.open_connection("127.0.0.1", bound.port)
        writer.write(Hello(node_id=9, to=0, cluster_id="", address=lie).encode(Kind.HELLO))
        assert await reader.read() == b"", "hung up"
        writer.close()
        refused = waiting.host.transport.stats
        await wait_until_async(lambda: refused.refused, SOON, "a refusal")

        assert waiting.host.failure is None
        assert waiting.broker.place is Place.UNKNOWN
        enrolling.cancel()

    asyncio.run(_with_stack(scenario))


def test_leave_that_comes_to_nothing_ends_in_its_time(tmp_path: Path) -> None:
    async def scenario(stack: AsyncExitStack) -> None:
        bound = listener()
        for id_ in (1, 2):
            (tmp_path / str(id_)).mkdir()
        founder = await started(stack, Hosted(tmp_path / "1", bound=bound))
        await founder.enrol()
        other = await Hosted(
            tmp_path / "2", 2, seeds=(address_of(bound),), bound=listener()
        ).start()
        await other.enrol()
        await founder.host.stop()

        await asyncio.wait_for(other.host.leave(0.05), SOON)

        assert not other.broker.has_left
        assert other.host.failure is None
        await other.host.stop()

    asyncio.run(_with_stack(scenario))
