"""Ctrl-C and SIGTERM as a readable descriptor, so that input read before them is not lost.

Rules: the first signal raises nothing, because an exception between any two instructions can break
what runs there, such as a first import; it makes `descriptor` readable and is remembered. A wait
that cannot check the descriptor is ended from outside (`ending`). The second signal has its default
effect, so a command that waits for a dead broker can still be ended. A signal that was ignored
before (a shell's background job) stays ignored.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Handles signals inside its `with` block; `number` is the received signal, or None."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.descriptor, self._wake = os.pipe()
        self._before: dict[signal.Signals, Any] = {}
        self._waiter: threading.Thread | None = None

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._come)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        if self._waiter is not None:  # it must not wait on a descriptor that is closed
            os.write(self._wake, b"\0")
            self._waiter.join()
        os.close(self.descriptor)
        os.close(self._wake)

    def event(
        self, is_over: Callable[[], bool] = lambda: False, look_s: float | None = None
    ) -> threading.Event:
        """Set by the first signal, and when `is_over`, which is looked at that often; for a main
        thread that waits in other ways. To be called once."""
        ended = threading.Event()

        def wait() -> None:
            while not is_over() and not select.select([self.descriptor], [], [], look_s)[0]:
                pass
            ended.set()

        self._waiter = threading.Thread(target=wait, daemon=True)
        self._waiter.start()
        return ended

    @contextlib.contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """Inside the block a signal, also one received before, calls `end` from another thread."""
        done, is_done = os.pipe()

        def watch() -> None:
            if self.descriptor in select.select([self.descriptor, done], [], [])[0]:
                end()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            os.write(is_done, b"\0")
            watcher.join()
            os.close(done)
            os.close(is_done)

    def _come(self, number: int, _: FrameType | None) -> None:
        self.number = number
        os.write(self._wake, b"\0")
        self._restore()

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()
