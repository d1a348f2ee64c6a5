"""The asyncio host on a real disk: start, propose, stop, fail, and kill -9 under load."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.quorum import Quorum
from josefine_broker.shell.raft_host import ProposalToken, RaftHost, RaftTimings, Result
from raft import (
    Batch,
    Block,
    BlockFile,
    CorruptStore,
    DiskFiles,
    NodeId,
    Refused,
    Role,
    StoreFull,
)
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]


class Monotonic:
    """The real clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


CLOCK = Monotonic()


def make_host(
    directory: Path, on_block: Callable[[Block], None] = lambda _: None, **options: Any
) -> RaftHost:
    values = {"node_id": 1, "voters": [1], "cluster_id": "c-1", **options}
    return RaftHost(directory, clock=CLOCK, rng=Random(1), on_block=on_block, **values)


def propose(host: RaftHost, payload: bytes, timeout_ms: int = 10_000) -> asyncio.Future[Any]:
    """A proposal as a future of its token."""
    future = asyncio.get_running_loop().create_future()
    token = host.propose(payload, CLOCK.monotonic_ms() + timeout_ms)
    token.on_done = future.set_result
    return future


def test_start_returns_when_the_recovered_chain_is_applied(tmp_path: Path) -> None:
    async def first() -> None:
        host = make_host(tmp_path)
        await host.start()
        await asyncio.gather(*(propose(host, b"%d" % i) for i in range(2000)))
        await host.stop()

    async def second() -> None:
        seen: list[bytes] = []
        host = make_host(tmp_path, lambda block: seen.append(block.payload))
        await host.start()
        assert seen == [b"%d" % i for i in range(2000)]
        status = host.status()
        assert (status.role, status.leader, status.cluster_id) == (Role.LEADER, 1, "c-1")
        assert status.applied == status.commit == status.head
        await host.stop()

    asyncio.run(first())
    asyncio.run(second())


def test_a_token_ends_after_its_block_is_applied(tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[bytes] = []
        at_end: list[tuple[Result | None, list[bytes]]] = []
        host = make_host(tmp_path, lambda block: seen.append(block.payload))
        await host.start()

        def on_done(token: ProposalToken) -> None:
            at_end.append((token.result, list(seen)))

        first = host.propose(b"a", CLOCK.monotonic_ms() + 10_000)
        first.on_done = on_done
        assert not first.done
        await propose(host, b"b")

        assert at_end[0][0] is Result.COMMITTED
        assert at_end[0][1][0] == b"a"
        assert first.block_id is not None
        await host.stop()

    asyncio.run(main())


def test_a_proposal_without_a_leader_ends_at_its_deadline(tmp_path: Path) -> None:
    """Checklist row 11."""

    async def main() -> None:
        host = make_host(tmp_path, voters=[1, 2, 3])
        await host.start()

        token = await asyncio.wait_for(propose(host, b"a", timeout_ms=50), timeout=10)

        assert (token.result, token.block_id) == (Result.DEAD, None)
        await host.stop()

    asyncio.run(main())


def test_after_stop_open_proposals_are_unknown_and_new_ones_dead(tmp_path: Path) -> None:
    async def main() -> None:
        host = make_host(tmp_path, voters=[1, 2, 3])
        await host.start()
        open_one = propose(host, b"a")
        await host.stop()
        late = propose(host, b"b")

        assert (await open_one).result is Result.UNKNOWN
        assert (await late).result is Result.DEAD

    asyncio.run(main())


def test_a_failing_store_stops_the_host_and_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        failures: list[BaseException] = []
        host = make_host(tmp_path)
        host.on_failure = failures.append
        await host.start()
        host._store._fail(OSError(28, "No space left on device"))  # type: ignore[union-attr]

        token = await asyncio.wait_for(propose(host, b"a"), timeout=10)

        assert token.result is Result.UNKNOWN
        assert "No space left" in str(host.failure)
        assert failures == [host.failure]
        await host.stop()

    asyncio.run(main())


class FullDisk:
    """Stands before a store whose disk is full, until there is room."""

    def __init__(self, host: RaftHost) -> None:
        self.is_full = True
        store: Any = host._store
        self._append = store.append
        store.append = self.append

    def append(self, batch: Batch) -> None:
        if self.is_full:
            raise StoreFull("no room for the block file: No space left on device")
        self._append(batch)


async def until_it_lacks_room(host: RaftHost) -> None:
    lacks = lambda: "No space left" in host.lacks_room  # noqa: E731
    await asyncio.to_thread(wait_until, lacks, 10, "a host that waits for room")


def test_a_full_disk_holds_the_host_up_and_ends_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        host = make_host(tmp_path)
        await host.start()
        disk = FullDisk(host)
        proposal = propose(host, b"a", timeout_ms=60_000)
        await until_it_lacks_room(host)
        assert not proposal.done()
        with pytest.raises(KafkaError, match="No space left") as caught:
            Quorum(host, CLOCK).propose(b"b", CLOCK.monotonic_ms() + 10_000)
        assert caught.value.code is ErrorCode.not_controller, "others take changes"

        disk.is_full = False

        assert (await asyncio.wait_for(proposal, timeout=10)).result is Result.COMMITTED
        assert (host.failure, host.lacks_room) == (None, "")
        await host.stop()

    asyncio.run(main())


def test_a_host_on_a_full_disk_stops(tmp_path: Path) -> None:
    async def main() -> None:
        host = make_host(tmp_path)
        await host.start()
        FullDisk(host)
        proposal = propose(host, b"a", timeout_ms=60_000)
        await until_it_lacks_room(host)

        await asyncio.wait_for(host.stop(), timeout=10)

        assert (await proposal).result is Result.UNKNOWN
        assert host.failure is None

    asyncio.run(main())


def test_start_refuses_a_damaged_chain_with_a_clear_error(tmp_path: Path) -> None:
    async def main() -> None:
        host = make_host(tmp_path)
        await host.start()
        for _ in range(3):
            await propose(host, b"payload")
        await host.stop()
        (segment,) = tmp_path.glob("*.seg")
        data = bytearray(segment.read_bytes())
        data[100] ^= 1
        segment.write_bytes(data)

        with pytest.raises(CorruptStore, match="damaged at byte"):
            await make_host(tmp_path).start()
        with pytest.raises(CorruptStore, match="damaged at byte"):  # and the lock is free again
            await make_host(tmp_path).start()

    asyncio.run(main())


def test_the_state_machine_restarts_from_its_snapshot(tmp_path: Path) -> None:
    """Checklist row 9."""

    class Counter:
        def __init__(self) -> None:
            self.total = 0
            self.blocks = 0
            self.host = make_host(
                tmp_path,
                self.add,
                on_snapshot=self.restore,
                take_snapshot=lambda: b"%d" % self.total,
                snapshot_blocks=100,
            )

        def add(self, block: Block) -> None:
            self.total += int(block.payload)
            self.blocks += 1

        def restore(self, data: bytes) -> None:
            self.total = int(data)

    async def main() -> None:
        first = Counter()
        await first.host.start()
        for _ in range(10):
            await asyncio.gather(*(propose(first.host, b"%d" % i) for i in range(37)))
        await first.host.stop()

        second = Counter()
        await second.host.start()
        await second.host.stop()

        assert second.total == first.total == 10 * sum(range(37))
        assert second.blocks < 200

    asyncio.run(main())


@pytest.mark.parametrize(
    ("bounds", "is_due"),
    [
        ({"snapshot_blocks": 5}, True),
        ({"snapshot_bytes": 5 * 1000}, True),
        ({"snapshot_blocks": 1000, "snapshot_bytes": 1_000_000}, False),
    ],
)
def test_a_snapshot_is_due_by_blocks_or_by_bytes(
    tmp_path: Path, bounds: dict[str, int], is_due: bool
) -> None:
    """Checklist row 9."""
    taken: list[int] = []

    async def main() -> None:
        applied: list[Block] = []

        def take() -> bytes:
            taken.append(len(applied))
            return b"state"

        host = make_host(tmp_path, applied.append, take_snapshot=take, **bounds)
        await host.start()
        for _ in range(12):
            await propose(host, b"d" * 1000)
        await host.stop()

    asyncio.run(main())

    assert bool(taken) is is_due
    # The birth block counts as one, so the first comes a little before the fifth of ours.
    assert taken in ([], [4, 9], [5, 10])


def test_too_large_a_proposal_is_refused_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        host = make_host(tmp_path)
        await host.start()
        with pytest.raises(Refused):
            host.propose(bytes(9 * 1024 * 1024), CLOCK.monotonic_ms() + 1000)
        await host.stop()

    asyncio.run(main())


def test_the_event_loop_runs_while_the_disk_is_slow(tmp_path: Path) -> None:
    async def main() -> None:
        host = make_host(tmp_path, timings=RaftTimings(heartbeat_ms=20, election_timeout_ms=50))
        await host.start()
        store = host._store
        assert store is not None
        released = threading.Event()
        sync = store.sync
        store.sync = lambda: (released.wait(10), sync())[1]  # type: ignore[method-assign]

        slow = propose(host, b"a")
        for _ in range(100):  # the loop turns although the disk hangs
            await asyncio.wait([slow], timeout=0)
        assert not slow.done()
        released.set()

        assert (await slow).result is Result.COMMITTED
        await host.stop()

    asyncio.run(main())


def test_every_batch_that_promises_something_is_synced_before_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        calls: list[str] = []
        host = make_host(tmp_path)
        await host.start()
        store = host._store
        assert store is not None
        append, sync = store.append, store.sync

        def recording_append(batch: Batch) -> None:
            calls.append("promise" if batch.must_sync else "write")
            append(batch)

        def recording_sync() -> None:
            calls.append("sync")
            sync()

        store.append, store.sync = recording_append, recording_sync  # type: ignore[method-assign]
        waves = [propose(host, b"a")]
        for _ in range(30):  # blocks arrive while earlier ones are being synced
            await asyncio.wait(waves, timeout=0)
            waves.append(propose(host, b"b"))
        await asyncio.gather(*waves)
        await host.stop()

        text = " ".join(calls) + " "
        assert text.count("promise") > 0
        assert text.count("promise sync ") == text.count("promise")

    asyncio.run(main())


WRITER = """
import asyncio, sys, time
from pathlib import Path
from random import Random
from josefine_broker.shell.raft_host import RaftHost

class Clock:
    def now_ms(self): return time.time_ns() // 1_000_000
    def monotonic_ms(self): return time.monotonic_ns() // 1_000_000

async def main(directory, first):
    host = RaftHost(directory, node_id=1, voters=[1], cluster_id="c", clock=Clock(),
                    rng=Random(first), on_block=lambda block: None)
    await host.start()
    term = host.status().term
    number = first
    while True:
        ends = []
        for _ in range(20):
            token = host.propose(b"%d" % number, Clock().monotonic_ms() + 10_000)
            end = asyncio.get_running_loop().create_future()
            token.on_done = end.set_result
            ends.append((number, end))
            number += 1
        for sent, end in ends:
            token = await end
            print(sent, token.result.name, term, *token.block_id, flush=True)

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


def test_kill_9_during_proposals_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Checklist row 6: term, vote, head and commit too."""
    acknowledged: dict[int, tuple[int, int]] = {}
    rng = Random(7)
    for life in range(4):
        log = tmp_path / f"life-{life}.txt"
        with log.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-c", WRITER, str(tmp_path / "data"), str(life * 1_000_000)],
                stdout=out,
                cwd=ROOT,
            )
            try:
                wanted = rng.randint(50, 400)
                wait_until(
                    lambda log=log, wanted=wanted: log.read_text().count("\n") >= wanted,
                    30,
                    "acknowledged proposals",
                )
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
        whole_lines = log.read_text().rpartition("\n")[0].splitlines()
        for line in whole_lines:
            number, result, _, term, height = line.split()
            assert result == "COMMITTED"
            acknowledged[int(number)] = (int(term), int(height))

        store, recovered = BlockFile.open(DiskFiles(tmp_path / "data"), NodeId(1))
        store.close()
        on_path = {}
        id_, blocks = recovered.state.head, {block.id: block for block in recovered.blocks}
        while id_ in blocks:
            on_path[id_] = blocks[id_].payload
            id_ = blocks[id_].parent
        for number, block_id in acknowledged.items():
            assert on_path[block_id] == b"%d" % number  # type: ignore[index]
            assert block_id[1] <= recovered.state.commit.height
        assert recovered.state.term == life + 1
        assert recovered.state.vote == 1
