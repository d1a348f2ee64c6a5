"""Compiled threads that sync files: every sync ends once with its own errno, whatever else ends."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from struct import Struct

import pytest

from josefine_broker.base.errors import Fatal
from josefine_broker.host.disk import sync_pipes as module
from josefine_broker.host.disk.files import RealFiles
from josefine_broker.host.disk.sync_pipes import (
    AT_ONCE_MAX,
    THREADS,
    SyncPipes,
    compiled,
    load,
    open_pipes,
)
from josefine_broker.host.disk.synced_mark import NO_ENTRY, NOTHING_KNOWN, Entry
from josefine_broker.host.disk.syncer import Syncer
from josefine_broker.records.structure import FOLDER
from tests.support.sync_lives import live

REQUEST, RESULT = Struct("=qiii20s"), Struct("=qiii4x")
needs_compiled = pytest.mark.skipif(compiled is None, reason=f"not compiled for {FOLDER}")
Disk = Callable[[int], int]
STEPS = "ended", "done"


def twin(disk: Disk) -> module.Start:
    """The compiled thread in Python; `disk` returns the errno of a sync."""

    def serve(requests: int, results: int) -> None:
        while len(data := os.read(requests, REQUEST.size)) == REQUEST.size:
            position, number, fd, entry_fd, entry = REQUEST.unpack(data)
            try:
                error = disk(fd)
            except SystemExit:
                break
            is_written = False
            if not error and entry_fd >= 0:
                with suppress(OSError):
                    is_written = os.pwrite(entry_fd, entry, position) == len(entry)
            os.write(results, RESULT.pack(1, number, error, is_written))
        os.close(requests)
        os.close(results)

    return lambda *ends: threading.Thread(target=serve, args=ends, daemon=True).start()


class Syncs:
    """What became of the syncs that a test has submitted."""

    def __init__(self, start: module.Start | None) -> None:
        self.errors: list[BaseException] = []
        pipes = open_pipes(asyncio.get_running_loop(), self.errors.append, start)
        assert pipes is not None
        self.pipes: SyncPipes = pipes
        self._syncer: Syncer = pipes
        self.ended: list[tuple[int, int, bool]] = []
        self.done: list[int] = []
        self._news = asyncio.Event()

    def submit(self, fd: int, entry: Entry = NO_ENTRY) -> int:
        nth = len(self.ended)
        self.ended.append((-1, -1, False))

        def ended(error: int, elapsed_ns: int, has_entry: bool) -> None:
            assert self.ended[nth] == (-1, -1, False), "ended twice"
            assert nth not in self.done, "done before it ended"
            self.ended[nth] = error, elapsed_ns, has_entry
            if error:
                raise OSError(error, "sync failed")

        def done() -> None:
            self.done.append(nth)
            self._news.set()

        return self._syncer.submit(fd, entry, ended, done)

    async def all_done(self) -> None:
        async with asyncio.timeout(30):
            while len(self.done) < len(self.ended):
                self._news.clear()
                await self._news.wait()


def run_scene(scene: Callable[[], Awaitable[None]]) -> None:
    """Nothing is left open: neither pipes nor duplicates."""

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scene()

    before = set(os.listdir("/proc/self/fd"))
    asyncio.run(bounded())
    assert set(os.listdir("/proc/self/fd")) <= before


def fdatasync(fd: int) -> int:
    try:
        os.fdatasync(fd)
    except OSError as error:
        return error.errno or -1
    return 0


both_ways = pytest.mark.parametrize(
    "start",
    [pytest.param(compiled, id="compiled", marks=needs_compiled),
     pytest.param(twin(fdatasync), id="twin")],
)  # fmt: skip


@both_ways
def test_each_sync_has_its_own_errno_and_the_entry_follows_only_a_success(
    start: module.Start, tmp_path: Path
) -> None:
    async def scene() -> None:
        syncs = Syncs(start)
        good = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
        marks = os.open(tmp_path / "mark", os.O_RDWR | os.O_CREAT)
        reader, writer = os.pipe()
        closed = os.dup(good)
        os.close(closed)
        os.write(marks, b"x" * 20)

        syncs.submit(good, Entry(marks, 20, b"a" * 20, NOTHING_KNOWN))
        syncs.submit(writer, Entry(marks, 40, b"b" * 20, NOTHING_KNOWN))
        syncs.submit(good)
        syncs.submit(closed)
        syncs.submit(good, Entry(reader, 0, b"c" * 20, NOTHING_KNOWN))
        syncs.pipes.flush()
        await syncs.all_done()

        assert [error for error, _, _ in syncs.ended] == [0, errno.EINVAL, 0, errno.EBADF, 0]
        assert [has for *_, has in syncs.ended] == [True, False, False, False, False]
        assert all(elapsed > 0 for _, elapsed, _ in syncs.ended)
        assert (tmp_path / "mark").read_bytes() == b"x" * 20 + b"a" * 20
        found = {error.errno for error in syncs.errors if isinstance(error, OSError)}
        assert found == {errno.EINVAL, errno.EBADF}
        await syncs.pipes.stop()
        for each in (good, marks, reader, writer):
            os.close(each)

    run_scene(scene)


@both_ways
@pytest.mark.parametrize("seed", range(4))
def test_random_lives_do_what_was_asked_for(start: module.Start, seed: int) -> None:
    """More of them, with the address sanitizer: `python -m tests.native_fuzz 10000 --sanitize`."""
    live(start, Random(seed))


@both_ways
def test_more_syncs_than_fit_into_a_pipe_and_a_stop_finishes_them(
    start: module.Start, tmp_path: Path
) -> None:
    async def scene() -> None:
        syncs = Syncs(start)
        fd = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
        for _ in range(5 * AT_ONCE_MAX):
            syncs.submit(fd)
        syncs.pipes.flush()

        await syncs.pipes.stop()

        assert not syncs.pipes.is_running
        assert {error for error, _, _ in syncs.ended} == {0}
        assert sorted(syncs.done) == list(range(5 * AT_ONCE_MAX))
        await syncs.pipes.stop()
        os.close(fd)

    run_scene(scene)


@both_ways
def test_wait_ends_the_sync_within_the_call_and_is_done_later(
    start: module.Start, tmp_path: Path
) -> None:
    async def scene() -> None:
        syncs = Syncs(start)
        fd = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
        numbers = [syncs.submit(fd) for _ in range(3 * AT_ONCE_MAX)]

        other = threading.Thread(target=syncs.pipes.wait, args=(numbers[-1],))
        other.start()
        other.join(30)
        assert not other.is_alive()
        assert syncs.ended[-1][0] == -1  # of the loop's thread alone

        syncs.pipes.wait(numbers[-1])  # not even handed over so far

        assert syncs.ended[-1][0] == 0
        assert syncs.done == []
        await syncs.all_done()
        syncs.pipes.wait(numbers[-1])
        await syncs.pipes.stop()
        os.close(fd)

    run_scene(scene)


def test_disk_that_hangs_stops_neither_the_loop_nor_other_files_and_the_stop_ends_with_it() -> None:
    async def scene() -> None:
        goes_on, hangs = threading.Event(), threading.Event()

        def disk(fd: int) -> int:
            if fd == 7:
                hangs.set()
                assert goes_on.wait(30)
            return 0

        syncs = Syncs(twin(disk))
        syncs.submit(7)
        syncs.pipes.flush()
        assert await asyncio.to_thread(hangs.wait, 30)
        for _ in range(50):
            syncs.submit(8)
        syncs.pipes.flush()
        async with asyncio.timeout(30):
            while len(syncs.done) < 50:
                await asyncio.to_thread(lambda: None)
        assert syncs.ended[0][0] == -1

        stopping = asyncio.create_task(syncs.pipes.stop())
        await asyncio.to_thread(lambda: None)
        assert not stopping.done()
        goes_on.set()
        await stopping
        assert syncs.ended[0][0] == 0

    run_scene(scene)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_error_of_the_disk_comes_back_as_it_is(error: int) -> None:
    async def scene() -> None:
        syncs = Syncs(twin(lambda fd: error if fd == 7 else 0))
        syncs.submit(7)
        syncs.submit(8)
        syncs.pipes.flush()
        await syncs.all_done()
        assert [each for each, _, _ in syncs.ended] == [error, 0]
        assert [getattr(each, "errno", 0) for each in syncs.errors] == [error]
        await syncs.pipes.stop()

    run_scene(scene)


@pytest.mark.parametrize("is_waited", [False, True])
@pytest.mark.parametrize("wrong", STEPS)
def test_error_of_ours_after_one_sync_loses_no_other_and_the_stop_ends(
    wrong: str, is_waited: bool
) -> None:
    """Also `Fatal`, which is no Exception."""

    async def scene() -> None:
        count, seen, raised = 20, list[str](), list[BaseException]()

        def within(work: Callable[[], None]) -> None:
            try:
                work()
            except Fatal as error:
                raised.append(error)

        syncs = Syncs(twin(lambda fd: 0))
        syncs.pipes.within = within

        def step(name: str, nth: int, *_: object) -> None:
            seen.append(f"{name} {nth}")
            if (name, nth) == (wrong, 3):
                raise Fatal("a broken invariant")

        for nth in range(count):
            ended, done = partial(step, "ended", nth), partial(step, "done", nth)
            number = syncs.pipes.submit(7, NO_ENTRY, ended, done)
        syncs.pipes.flush()
        if is_waited:
            syncs.pipes.wait_for_all()
            assert len(seen) == count  # `done` comes later
            syncs.pipes.wait(number)
        await syncs.pipes.stop()
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)

        assert sorted(seen) == sorted(f"{name} {n}" for name in STEPS for n in range(count))
        assert [str(each) for each in raised] == ["a broken invariant"]
        assert syncs.errors == []  # no error of the disk

    run_scene(scene)


def test_stop_ends_where_its_last_sync_was_waited_for_meanwhile() -> None:
    """A log is closed while the pipes stop."""

    async def scene() -> None:
        goes_on = threading.Event()
        syncs = Syncs(twin(lambda fd: not goes_on.wait(30)))
        number = syncs.submit(7)
        syncs.pipes.flush()
        stopping = asyncio.create_task(syncs.pipes.stop())
        await asyncio.to_thread(lambda: None)
        assert not stopping.done()
        goes_on.set()
        syncs.pipes.wait(number)
        await stopping
        await syncs.all_done()

    run_scene(scene)


@pytest.mark.parametrize("is_waited", [False, True])
def test_threads_that_end_fail_what_they_had_and_take_nothing_more(
    is_waited: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        def disk(fd: int) -> int:
            raise SystemExit

        syncs = Syncs(twin(disk))
        numbers = [syncs.submit(7) for _ in range(2 * AT_ONCE_MAX)]
        if is_waited:
            syncs.pipes.wait(numbers[0])
            assert {error for error, _, _ in syncs.ended} == {errno.EIO}
        else:
            syncs.pipes.flush()
        await syncs.all_done()
        assert {error for error, _, _ in syncs.ended} == {errno.EIO}
        assert not syncs.pipes.is_running
        await syncs.pipes.stop()

    run_scene(scene)
    assert "the threads that sync files have ended" in caplog.text


def test_without_a_thread_there_are_no_pipes_and_fewer_are_enough() -> None:
    started: list[int] = []

    def refuse(requests: int, results: int) -> None:
        raise RuntimeError("no thread could be started")

    def start_two(requests: int, results: int) -> None:
        if len(started) == 2:
            refuse(requests, results)
        started.append(requests)
        twin(lambda fd: 0)(requests, results)

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        assert open_pipes(loop, lambda error: None, refuse) is None
        assert open_pipes(loop, lambda error: None, None) is None
        syncs = Syncs(start_two)
        assert len(started) == 2 < THREADS
        syncs.submit(7)
        syncs.pipes.flush()
        await syncs.all_done()
        await syncs.pipes.stop()

    run_scene(scene)


def test_platform_without_a_binary_has_none() -> None:
    assert load("plan9_pdp11") is None


@needs_compiled
def test_forked_process_leaves_the_threads_of_its_parent_alone() -> None:
    async def scene() -> None:
        syncs = Syncs(compiled)
        child = os.fork()
        if not child:
            os._exit(syncs.pipes.is_running)
        assert os.waitpid(child, 0)[1] == 0
        assert syncs.pipes.is_running
        await syncs.pipes.stop()

    run_scene(scene)


@both_ways
def test_closed_and_deleted_file_keeps_its_descriptor_until_the_sync_ends(
    start: module.Start, tmp_path: Path
) -> None:
    """Otherwise the next file that is opened would get the number, and be synced in its place."""

    async def scene() -> None:
        syncs = Syncs(start)
        files = RealFiles(tmp_path, open_max=2)
        file = files.open("log", create=True)
        file.write_at_end((b"x",))
        fd = file.begin_sync()
        file.close()
        files.remove("log")
        others = [files.open(f"other{n}", create=True) for n in range(4)]
        assert os.readlink(f"/proc/self/fd/{fd}").endswith("log (deleted)")

        number = syncs.submit(fd)
        syncs.pipes.wait(number)
        await syncs.all_done()
        assert syncs.ended[0][0] == 0
        file.end_sync(fd, 0, 1)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
        for each in others:
            each.close()
        await syncs.pipes.stop()

    run_scene(scene)


@both_ways
def test_all_that_follows_from_results_happens_within_one_call(
    start: module.Start, tmp_path: Path
) -> None:
    """Also what follows from one that was waited for."""

    async def scene() -> None:
        syncs = Syncs(start)
        seen: list[int] = []

        def within(work: Callable[[], None]) -> None:
            before = len(syncs.done)
            work()
            seen.append(len(syncs.done) - before)

        syncs.pipes.within = within
        fd = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
        first = syncs.submit(fd)
        syncs.submit(fd)
        syncs.pipes.wait(first)
        assert (seen, syncs.done) == ([], [])
        await syncs.all_done()
        assert sum(seen) == 2
        await syncs.pipes.stop()
        os.close(fd)

    run_scene(scene)


@both_ways
def test_wait_for_all_ends_every_sync_and_nothing_else(start: module.Start, tmp_path: Path) -> None:
    """Also more than the threads take at a time."""

    async def scene() -> None:
        syncs = Syncs(start)
        fd = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
        syncs.pipes.wait_for_all()
        for _ in range(2 * AT_ONCE_MAX):
            syncs.submit(fd)
        syncs.pipes.wait_for_all()
        assert [error for error, _, _ in syncs.ended] == [0] * 2 * AT_ONCE_MAX
        assert syncs.done == []
        await syncs.all_done()
        await syncs.pipes.stop()
        os.close(fd)

    run_scene(scene)
