"""The asyncio host on a real disk: start, propose, stop, fail, and kill -9 under load."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.errors import CorruptData, ErrorCode, Fatal, KafkaError
from josefine_broker.engine.events import Ready
from josefine_broker.engine.metadata.change_codec import decode_change
from josefine_broker.engine.metadata.changes import CreateTopic
from josefine_broker.engine.quorum import SnapshotLimits
from josefine_broker.host import engine_host
from josefine_broker.host.clock import RealClock
from josefine_broker.host.disk.data_dir import DataDirError
from raft import (
    Batch,
    BlockFile,
    BlockId,
    DiskFiles,
    Height,
    NodeId,
    Refused,
    Result,
    Role,
    State,
    StoreFull,
    Term,
)
from tests.support.waiting import wait_until, wait_until_async
from tests.unit.engine.hosts import Hosted, listener, running, serving
from tests.unit.engine.scenes import topic

ROOT = Path(__file__).resolve().parents[3]
OTHERS_ARE_AWAY = {1: HostPort("127.0.0.1", 1), 2: HostPort("127.0.0.1", 2)}
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


# -- the disk


def test_a_failing_store_ends_the_host_and_it_says_why_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as one:
            one.store._fail(OSError(5, "Input/output error"))

            lost = one.propose(topic("a"))
            await wait_until_async(lambda: one.failures, SOON, "a failure")

            assert "Input/output error" in str(one.host.failure)
            assert one.failures == [one.host.failure] == [one.broker.failure]
            assert not lost.done(), "nobody knows what became of it"
            with pytest.raises(KafkaError) as caught:
                one.submit(topic("b"))
            assert caught.value.code is ErrorCode.not_controller, "and nothing more is proposed"
        assert one.failures == [one.host.failure]

    asyncio.run(main())


def test_start_and_enrolment_on_a_failing_store_end_with_its_reason(tmp_path: Path) -> None:
    async def at_start() -> None:
        one = Hosted(tmp_path / "start")
        await one.host.open()
        one.store._fail(OSError(5, "Input/output error"))
        with pytest.raises(Fatal, match="Input/output error"):
            await one.run()
        await one.host.stop()

    async def at_enrolment() -> None:
        async with running(tmp_path / "enrolment") as one:
            one.store._fail(OSError(5, "Input/output error"))
            with pytest.raises(Fatal, match="Input/output error"):
                await asyncio.wait_for(one.enrol(), SOON)

    asyncio.run(at_start())
    asyncio.run(at_enrolment())


class FullDisk:
    """Stands before a store whose disk is full, until there is room."""

    def __init__(self, one: Hosted) -> None:
        self.is_full = True
        self._append = one.store.append
        one.store.append = self.append

    def append(self, batch: Batch) -> None:
        if self.is_full:
            raise StoreFull("no room for the block file: No space left on device")
        self._append(batch)


async def until_it_lacks_room(one: Hosted) -> None:
    lacks = lambda: "No space left" in one.broker.quorum.lacks_room  # noqa: E731
    await wait_until_async(lacks, SOON, "a host that waits for room")


def test_a_full_disk_holds_the_host_up_and_ends_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as one:
            disk = FullDisk(one)
            change = one.submit(topic("a"))
            await until_it_lacks_room(one)
            assert not change.done()
            with pytest.raises(KafkaError, match="No space left") as caught:
                one.submit(topic("b"))
            assert caught.value.code is ErrorCode.not_controller, "others take changes"

            disk.is_full = False

            assert (await asyncio.wait_for(change, SOON)).error is None
            assert (one.host.failure, one.broker.quorum.lacks_room) == (None, "")

    asyncio.run(main())


def test_a_host_on_a_full_disk_stops(tmp_path: Path) -> None:
    async def main() -> None:
        one = await Hosted(tmp_path).start()
        FullDisk(one)
        proposal = one.propose(topic("a"))
        await until_it_lacks_room(one)

        await asyncio.wait_for(one.host.stop(), SOON)

        assert not proposal.done()
        assert one.host.failure is None

    asyncio.run(main())


def test_a_start_on_a_full_disk_says_what_it_waits_for_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_host, "CATCH_UP_SECONDS", 0.05)

    async def main() -> None:
        one = Hosted(tmp_path)
        await one.host.open()
        FullDisk(one)
        with pytest.raises(TimeoutError, match=r"was not applied in .* No space left on device"):
            await one.run()
        await one.host.stop()

    asyncio.run(main())


def test_the_event_loop_runs_while_the_disk_is_slow(tmp_path: Path) -> None:
    """In a write that is synced at once, and in one whose sync others need not wait for."""

    async def main() -> None:
        async with running(tmp_path) as one:
            released = [threading.Event(), threading.Event()]
            left, sync = iter(released), one.store.sync
            one.store.sync = lambda: (next(left).wait(SOON), sync())[1]

            first = one.propose(topic("first"))
            await wait_until_async(lambda: one.broker.quorum.in_hand, SOON, "the first write")
            second = one.propose(topic("second"))
            await _turn_while_waiting(first)
            released[0].set()
            assert await first is Result.COMMITTED
            assert _commits(one)
            await _turn_while_waiting(second)
            released[1].set()
            one.store.sync = sync

            assert await second is Result.COMMITTED

    asyncio.run(main())


async def _turn_while_waiting(slow: asyncio.Future[Result]) -> None:
    for _ in range(100):
        await asyncio.wait([slow], timeout=0)
    assert not slow.done()


def _commits(one: Hosted) -> bool:
    """The write under way says that a block is committed, and has another one with it."""
    work = one.broker.quorum.in_hand
    return (
        work is not None
        and bool(work.committed)
        and work.batch is not None
        and bool(work.batch.blocks)
    )


def test_stop_finishes_the_write_under_way_and_leaves_nothing_running(tmp_path: Path) -> None:
    """To its sync, although what it was written with is applied before that."""

    async def main() -> None:
        one = await Hosted(tmp_path).start()
        synced, written = threading.Event(), threading.Event()
        append, sync = one.store.append, one.store.sync
        one.store.sync = lambda: (synced.wait(SOON), sync())[1]
        first = one.propose(topic("first"))
        await wait_until_async(lambda: one.broker.quorum.in_hand, SOON, "the first write")
        one.propose(topic("second"))  # goes with the news that the first is committed
        one.store.append = lambda batch: (written.wait(SOON), append(batch))[1]
        synced.set()
        await wait_until_async(lambda: _commits(one), SOON, "the second write")
        stopping = asyncio.ensure_future(one.host.stop())
        await asyncio.wait([stopping], timeout=0)
        assert not stopping.done()

        written.set()
        await asyncio.wait_for(stopping, SOON)

        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert one.failures == []
        assert await first is Result.COMMITTED

    asyncio.run(main())
    assert {"first", "second"} <= set(chain_of(tmp_path / "raft")[0])


def test_every_batch_that_promises_something_is_synced_before_its_messages_leave(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        calls: list[str] = []
        one = Hosted(tmp_path, voters=OTHERS_ARE_AWAY)
        await one.host.open()
        append, sync, send = one.store.append, one.store.sync, one.host.transport.send

        def recording_append(batch: Batch) -> None:
            calls.append("promise" if batch.must_sync else "write")
            append(batch)

        def recording_sync() -> None:
            sync()
            calls.append("sync")

        def recording_send(*what: Any) -> None:
            calls.append("send")
            send(*what)

        one.store.append, one.store.sync = recording_append, recording_sync
        one.host.transport.send = recording_send  # type: ignore[method-assign]
        await one.run()
        for term in range(1, 20):  # each newer term is one to be kept before it is told
            one.hears_vote_request(term)
            kept = lambda term=term: calls.count("sync") >= term  # noqa: E731
            await wait_until_async(kept, SOON, "a term that is kept")
        await wait_until_async(lambda: calls.count("send") >= 19, SOON, "votes")
        await one.host.stop()

        text = " ".join(calls) + " "
        assert text.count("promise") >= 19
        assert text.count("promise sync ") == text.count("promise")

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


def test_a_host_that_is_stopped_while_it_starts_lets_nobody_in(tmp_path: Path) -> None:
    async def main() -> None:
        one = Hosted(tmp_path, bound=listener())
        await one.host.open()
        FullDisk(one)
        starting = asyncio.ensure_future(one.run())
        await until_it_lacks_room(one)
        assert not starting.done()

        await one.host.stop()
        await asyncio.wait([starting], timeout=SOON)

        assert starting.done()
        assert one.bound is not None
        accepts = one.bound.socket.fileno() >= 0 and one.bound.socket.getsockopt(
            socket.SOL_SOCKET, socket.SO_ACCEPTCONN
        )
        one.bound.socket.close()
        assert not accepts

    asyncio.run(main())


# -- what a start finds


def test_start_refuses_a_damaged_chain_with_a_clear_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as one:
            for number in range(3):
                await one.propose(topic(f"t{number}"))
        (segment,) = (tmp_path / "raft").glob("*.seg")
        data = bytearray(segment.read_bytes())
        data[100] ^= 1
        segment.write_bytes(data)

        for _ in range(2):  # the second time, for the lock is free again
            one = Hosted(tmp_path)
            with pytest.raises(CorruptData, match=r"metadata: .* damaged at byte"):
                await one.host.open()
            await one.host.stop()

    asyncio.run(main())


def test_start_refuses_a_chain_that_does_not_hang_together(tmp_path: Path) -> None:
    """Each of its frames is what was written: only the node can tell."""
    store, _ = BlockFile.open(DiskFiles(tmp_path / "raft"), NodeId(1))
    store.append(Batch(state=State(term=Term(1), head=BlockId(Term(1), Height(5)))))
    store.sync()
    store.close()

    async def main() -> None:
        one = Hosted(tmp_path)
        with pytest.raises(CorruptData, match="metadata: "):
            await one.host.open()
        await one.host.stop()

    asyncio.run(main())


def test_the_image_restarts_from_its_snapshot(tmp_path: Path) -> None:
    """Checklist row 9."""
    limits = SnapshotLimits(blocks=100)
    names = [f"t{number}" for number in range(370)]

    async def first() -> None:
        async with serving(tmp_path, snapshots=limits) as one:
            for begin in range(0, len(names), 37):
                await asyncio.gather(*(one.submit(topic(n)) for n in names[begin : begin + 37]))

    async def second() -> None:
        async with running(tmp_path, snapshots=limits) as one:
            assert set(one.topics) == set(names)
            assert one.broker.quorum.recovered.snapshot is not None
            assert len(one.broker.quorum.recovered.blocks) < 200

    asyncio.run(first())
    asyncio.run(second())


@pytest.mark.parametrize(
    ("limits", "is_due"),
    [
        (SnapshotLimits(blocks=5), True),
        (SnapshotLimits(bytes=5 * 170), True),
        (SnapshotLimits(blocks=1000, bytes=1_000_000), False),
    ],
)
def test_a_snapshot_is_due_by_blocks_or_by_bytes(
    tmp_path: Path, limits: SnapshotLimits, is_due: bool
) -> None:
    """Checklist row 9."""

    async def main() -> None:
        async with running(tmp_path, snapshots=limits) as one:
            roots = []
            for number in range(12):
                await one.propose(topic(f"t{number}"))
                roots.append(one.broker.quorum.status().root.height)

            assert bool(one.broker.quorum.snapshots) is is_due
            assert roots[-1] in ((10, 11, 12, 13) if is_due else (0,))

    asyncio.run(main())


# -- kill -9

WRITER = """
import asyncio, sys
from pathlib import Path
from tests.unit.engine.hosts import running
from tests.unit.engine.scenes import topic

async def main(directory, first):
    async with running(directory) as one:
        number = first
        while True:
            sent = {number + each: one.propose(topic(str(number + each))) for each in range(20)}
            number += len(sent)
            for each, end in sent.items():
                print(each, (await end).name, flush=True)

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


def chain_of(directory: Path) -> tuple[list[str], State]:
    """The topics whose creation is on the way to its head, and what else is kept."""
    store, recovered = BlockFile.open(DiskFiles(directory), NodeId(1))
    store.close()
    names = []
    id_, blocks = recovered.state.head, {block.id: block for block in recovered.blocks}
    while id_ in blocks:
        block = blocks[id_]
        if block.payload.startswith(b'{"change"'):
            change = decode_change(block.payload)[0]
            names += [change.name] if isinstance(change, CreateTopic) else []
        id_ = block.parent
    return names, recovered.state


def test_kill_9_during_proposals_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Checklist row 6: term, vote, head and commit too."""
    acknowledged: set[str] = set()
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
                    90,
                    "acknowledged proposals",
                )
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
        for line in log.read_text().rpartition("\n")[0].splitlines():
            number, result = line.split()
            assert result == "COMMITTED"
            acknowledged.add(number)

        committed, state = chain_of(tmp_path / "data" / "raft")
        assert acknowledged <= set(committed)
        assert len(committed) == len(set(committed))
        assert (state.term, state.vote) == (life + 1, 1)
