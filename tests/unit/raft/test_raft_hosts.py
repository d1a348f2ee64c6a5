"""Several hosts on real disks, their messages as bytes: birth, the same blocks, new members."""

import asyncio
import time
from pathlib import Path
from random import Random

from josefine_broker.shell.raft_host import RaftHost, RaftTimings, Result
from raft import Members, NodeId, Role
from tests.support.waiting import wait_until_async


class Monotonic:
    """The real clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class Member:
    """A host in a group; what it applied, and the cluster id it was told."""

    def __init__(self, directory: Path, id_: int, voters: list[int], group: "dict[int, Member]"):
        self.blocks: list[bytes] = []
        self.cluster_id = ""
        self.rounds = 0
        group[id_] = self

        def send(to: int, data: bytes) -> None:
            asyncio.get_running_loop().call_soon(lambda: group[to].host.receive_bytes(data))

        self.host = RaftHost(
            directory / str(id_),
            node_id=id_,
            voters=voters,
            cluster_id=f"named-by-{id_}",
            clock=Monotonic(),
            rng=Random(id_),
            on_block=lambda block: self.blocks.append(block.payload),
            send=send,
            on_snapshot=self._replaced,
            take_snapshot=lambda: b" ".join(self.blocks),
            snapshot_blocks=5,
            on_birth=self._born,
            on_progress=self._progressed,
            timings=RaftTimings(heartbeat_ms=20, election_timeout_ms=100),
        )

    def _replaced(self, data: bytes) -> None:
        self.blocks = data.split()

    def _born(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id

    def _progressed(self) -> None:
        self.rounds += 1


async def led(group: dict[int, Member]) -> Member:
    def leaders() -> list[Member]:
        members = [each for each in group.values() if each.host.status().role is Role.LEADER]
        return [each for each in members if each.cluster_id]

    await wait_until_async(lambda: len(leaders()) == 1, 10, "one leader")
    return leaders()[0]


def test_three_hosts_are_born_as_one_cluster_and_a_fourth_joins(tmp_path: Path) -> None:
    """Checklist rows 1, 11 and 16."""

    async def scenario() -> None:
        group: dict[int, Member] = {}
        for id_ in (1, 2, 3):
            Member(tmp_path, id_, [1, 2, 3], group)
        for member in group.values():
            await member.host.start()
        leader = await led(group)
        deadline_ms = Monotonic().monotonic_ms() + 10_000
        for member in group.values():  # any of them takes a proposal
            member.host.propose(b"%d" % member.host.status().node_id, deadline_ms)
        everywhere = {b"1", b"2", b"3"}
        await wait_until_async(
            lambda: all(set(each.blocks) == everywhere for each in group.values()), 10, "3 blocks"
        )
        assert {each.cluster_id for each in group.values()} == {leader.cluster_id}
        assert all(each.rounds for each in group.values())

        joiner = Member(tmp_path, 4, [], group)
        await joiner.host.start()
        voters = leader.host.status().members.voters
        token = leader.host.change_members(
            Members(voters=voters, learners=frozenset({NodeId(4)})), deadline_ms
        )
        await wait_until_async(lambda: set(joiner.blocks) == everywhere, 10, "the joiner's blocks")
        await wait_until_async(lambda: token.result is Result.COMMITTED, 10, "the change")
        assert joiner.blocks == leader.blocks
        assert joiner.cluster_id == leader.cluster_id

        successor = next(each for each in group.values() if each not in (leader, joiner))
        leader.host.transfer_leadership(successor.host.status().node_id)
        await wait_until_async(
            lambda: successor.host.status().role is Role.LEADER, 10, "the successor"
        )
        for member in group.values():
            await member.host.stop()

    asyncio.run(scenario())


def test_who_joins_by_a_snapshot_learns_whose_it_is(tmp_path: Path) -> None:
    """Only the snapshot says so. A broker that never heard it greets as one that lost its data."""

    async def scenario() -> None:
        group: dict[int, Member] = {}
        founder = Member(tmp_path, 1, [1], group)
        await founder.host.start()
        deadline_ms = Monotonic().monotonic_ms() + 20_000
        for number in range(10):
            founder.host.propose(b"%d" % number, deadline_ms)
        await wait_until_async(lambda: founder.host.status().root.height > 0, 10, "a snapshot")
        await founder.host.stop()
        founder = Member(tmp_path, 1, [1], group)  # without the blocks below it in memory
        await founder.host.start()
        assert founder.cluster_id == "named-by-1"

        joiner = Member(tmp_path, 2, [], group)
        await joiner.host.start()
        members = Members(voters=frozenset({NodeId(1)}), learners=frozenset({NodeId(2)}))
        founder.host.change_members(members, deadline_ms)
        await wait_until_async(lambda: joiner.blocks == founder.blocks, 10, "the state")

        assert joiner.host.status().root.height > 0
        assert joiner.cluster_id == "named-by-1"
        for member in group.values():
            await member.host.stop()

    asyncio.run(scenario())
