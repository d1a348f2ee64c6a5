"""Child processes of tests: none outlives its test, and a test that fails shows what its own wrote.

Rules: `pytest_runtest_call` in tests/conftest.py runs every test inside `children_of_a_test`. When
it ends, well or not, each `ChildProcess` that it started and that still runs is killed; of a test
that fails, the exit codes and the unread stderr of all of them are notes of its error. So a test
needs no `finally` for a process, and no assertion needs to quote stderr.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

SHOWN_BYTES = 64 * 1024
KILLED_S = 60.0


class ChildProcess(subprocess.Popen[str]):
    """A process with its streams as text; a `with` block that fails kills it, and its children if
    it has a session of its own."""

    def __init__(self, command: Any, *, start_new_session: bool = False, **how: Any) -> None:
        super().__init__(command, text=True, start_new_session=start_new_session, **how)
        self._leads_a_group = start_new_session
        _STARTED.append(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: Any
    ) -> None:
        if error is not None:
            self.end(error)
        super().__exit__(kind, error, at)

    def end(self, error: BaseException | None = None) -> None:
        """Kill it; an error is given its exit code and stderr as a note, once."""
        if self not in _STARTED:
            return
        _STARTED.remove(self)
        was_alive = self.poll() is None
        if self._leads_a_group:
            with contextlib.suppress(ProcessLookupError):  # it and its children have ended
                os.killpg(self.pid, signal.SIGKILL)
        self.kill()
        self.wait(KILLED_S)
        if error is not None:
            how = "killed as it still ran" if was_alive else f"exit code {self.returncode}"
            error.add_note(f"{self.args}: {how}, unread stderr: {self._unread_stderr()}")
        elif was_alive:
            self._close_streams()

    def _unread_stderr(self) -> str:
        if self.stderr is None or self.stderr.closed:
            return "not kept"
        os.set_blocking(self.stderr.fileno(), False)  # a child of its own may hold the other end
        with contextlib.suppress(BlockingIOError):
            return os.read(self.stderr.fileno(), SHOWN_BYTES).decode("utf-8", "replace")
        return ""

    def _close_streams(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):  # what it did not read
                    stream.close()


_STARTED: list[ChildProcess] = []


@contextlib.contextmanager
def children_of_a_test() -> Iterator[None]:
    """Those that fixtures have started before are not of this test."""
    before = list(_STARTED)

    def end(error: BaseException | None) -> None:
        for each in [each for each in _STARTED if each not in before]:
            each.end(error)

    try:
        yield
    except BaseException as raised:
        end(raised)
        raise
    end(None)
