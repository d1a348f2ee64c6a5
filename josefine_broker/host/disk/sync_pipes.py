"""Compiled threads that sync files and never take Python's interpreter: a `Syncer` over two pipes.

A sync on a thread of Python costs two or three times its fdatasync: the thread waits for the
interpreter before and after it, and wakes the loop by a third way. Here the loop writes the syncs
of one turn into a pipe by one call, the threads (`native/sync_thread.c`) read them one by one, and
the loop reads their results, as many as there are, when the second pipe has some. A result pipe
needs no queue, no lock and no eventfd: it carries the data, and its end is the end of all threads.

Rules: a submitted sync ends once, with its errno, whatever the end of another one raises. If the
threads end before it, it has failed: what the disk has is not known. A process that was forked has
none of the threads, and none is started.
Without the binary of its platform, or if no thread can be started, `open_pipes` returns None, and
threads of Python do the same (`sync_threads.py`), which is the oracle of the tests.
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import logging
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from select import POLLIN, poll
from struct import Struct
from threading import get_ident

from josefine_broker.host.disk.flusher import Job, run_now
from josefine_broker.host.disk.synced_mark import Entry
from josefine_broker.host.disk.syncer import Ended
from josefine_broker.records.structure import FOLDER

THREADS = 4
"""As many syncs run at a time: see `sync_threads.py`."""
AT_ONCE_MAX = 100
"""Syncs that the threads have at a time: all fit into one write below PIPE_BUF."""

_REQUEST = Struct("=qiii20s")
"""Position of the entry, number, descriptor, descriptor of the entry's file, entry."""
_RESULT = Struct("=qiii4x")
"""Nanoseconds, number, errno, whether the entry was written."""
_READ_BYTES = 128 * _RESULT.size

Start = Callable[[int, int], None]
"""Starts a thread that owns these ends of the two pipes. Raises RuntimeError."""

log = logging.getLogger(__name__)


def load(folder: str = FOLDER) -> Start | None:
    """The compiled thread of a platform; None if this Python cannot load one."""
    try:
        module = importlib.import_module(f"josefine_broker.host.disk.native.{folder}.sync_thread")
    except ImportError:
        return None
    start: Start = module.start
    return start


compiled = load()


def open_pipes(
    loop: asyncio.AbstractEventLoop,
    on_error: Callable[[BaseException], None],
    start: Start | None = compiled,
) -> SyncPipes | None:
    """None: threads of Python must do it."""
    if start is None:
        return None
    try:
        return SyncPipes(loop, on_error, start)
    except (OSError, RuntimeError) as error:
        log.warning("syncs take the slower way", extra={"reason": str(error)})
        return None


class SyncPipes:
    """See the module. Belongs to the thread of its loop."""

    __slots__ = (
        "_has_ended", "_is_stopped", "_is_taking", "_loop", "_number", "_on_error", "_owner",
        "_requests", "_results", "_running", "_waiting", "within",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_error: Callable[[BaseException], None],
        start: Start,
    ) -> None:
        """`on_error` is called with the error of a failed sync. Raises OSError, RuntimeError."""
        self._loop = loop
        self._on_error = on_error
        self._owner = os.getpid(), get_ident()
        self._running: dict[int, tuple[Ended, Job]] = {}
        self._waiting: deque[bytes] = deque()
        """Requests of those syncs that the threads do not have yet."""
        self._number = 0
        self._is_taking = False
        self._is_stopped = False
        self._has_ended = asyncio.Event()
        self.within: Callable[[Job], None] = run_now
        """Calls a function with all that follows from the results of one turn."""
        self._requests, self._results = _start_threads(start)
        loop.add_reader(self._results, self._take)

    @property
    def is_running(self) -> bool:
        return not self._is_stopped and self._owner[0] == os.getpid()

    def submit(self, descriptor: int, entry: Entry, ended: Ended, done: Job) -> int:
        """See `Syncer`."""
        self._number = number = self._number + 1 & 0x7FFFFFFF
        self._running[number] = ended, done
        self._waiting.append(
            _REQUEST.pack(entry.position, number, descriptor, entry.descriptor, entry.data)
        )
        return number

    def flush(self) -> None:
        """See `Syncer`."""
        if not self._is_taking:  # what results cause is sent together, after them
            self._send()

    def _send(self) -> None:
        waiting = self._waiting
        while waiting:
            count = min(AT_ONCE_MAX - len(self._running) + len(waiting), len(waiting))
            if not count:
                return
            try:
                os.write(self._requests, b"".join(islice(waiting, count)))
            except (BlockingIOError, BrokenPipeError):
                return  # a result makes room; or the end of all results comes
            for _ in range(count):
                waiting.popleft()

    def _take(self) -> None:
        """Results have arrived."""
        self._is_taking = True
        try:
            self.within(self._finish_some)
        finally:
            self._is_taking = False
            self._send()

    def _finish_some(self) -> None:
        jobs = iter(self._end_some())
        try:
            for done in jobs:
                done()
        finally:  # after an error: the rest of them
            for done in jobs:
                self._loop.call_soon(self.within, done)

    def _end_some(self) -> list[Job]:
        """End the syncs that have results; returns what is to be called after them."""
        try:
            data = os.read(self._results, _READ_BYTES)
        except BlockingIOError:
            return []
        if not data:
            return self._end_all()
        found = []
        for elapsed_ns, number, error, has_entry in _RESULT.iter_unpack(data):
            found.append(self._end(number, error, elapsed_ns, has_entry=bool(has_entry)))
        self._close_if_idle()
        return found

    def _end(self, number: int, error: int, elapsed_ns: int, *, has_entry: bool) -> Job:
        """Returns what is to be called after it. An error of ours is raised there: here it would
        lose the other results of this read."""
        ended, done = self._running.pop(number)
        try:
            ended(error, elapsed_ns, has_entry)
        except OSError as problem:
            self._on_error(problem)
        except BaseException as problem:
            return partial(_fail_after, done, problem)
        return done

    def _end_all(self) -> list[Job]:
        """Every thread has ended."""
        self._loop.remove_reader(self._results)
        os.close(self._results)
        if not self._is_stopped or self._running:
            log.error("the threads that sync files have ended", extra={"syncs": len(self._running)})
        self._is_stopped = True
        self._waiting.clear()
        self._has_ended.set()
        found = [self._end(each, errno.EIO, 0, has_entry=False) for each in list(self._running)]
        self._close_if_idle()
        return found

    def wait(self, number: int) -> None:
        """See `Syncer`."""
        self._wait_while(lambda: number in self._running)

    def wait_for_all(self) -> None:
        """The same for every submitted sync: none holds the lock of a log afterwards."""
        self._wait_while(lambda: bool(self._running))

    def _wait_while(self, is_running: Callable[[], bool]) -> None:
        if get_ident() != self._owner[1] or not is_running():
            return
        results = poll()
        results.register(self._results, POLLIN)
        while is_running():
            self._send()
            results.poll()
            for done in self._end_some():
                self._loop.call_soon(self.within, done)

    async def stop(self) -> None:
        """Finish every submitted sync, take no other, and end the threads. A disk that hangs is
        waited for; the loop runs meanwhile."""
        self._is_stopped = True
        self._close_if_idle()
        await self._has_ended.wait()

    def _close_if_idle(self) -> None:
        """The end of the requests ends the threads."""
        if self._is_stopped and not self._running and self._requests >= 0:
            os.close(self._requests)
            self._requests = -1


def _fail_after(done: Job, error: BaseException) -> None:
    done()
    raise error


def _start_threads(start: Start) -> tuple[int, int]:
    """Our ends of the two pipes. Each thread has duplicates of the other ends, so that a pipe ends
    with the last of them. Fewer threads than wanted are enough. Raises OSError, RuntimeError."""
    theirs, requests = os.pipe2(os.O_CLOEXEC)
    results, reported = os.pipe2(os.O_CLOEXEC)
    started = 0
    try:
        for _ in range(THREADS):
            ends = os.dup(theirs), os.dup(reported)
            try:
                start(*ends)
            except RuntimeError:
                for each in ends:
                    os.close(each)
                if not started:
                    raise
                break
            started += 1
        os.set_blocking(requests, False)
        os.set_blocking(results, False)
    except BaseException:
        os.close(requests)
        os.close(results)
        raise
    finally:
        os.close(theirs)
        os.close(reported)
    return requests, results
