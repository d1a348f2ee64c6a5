"""Ctrl-C and SIGTERM as a readable descriptor, so that input read before them is not lost.

Rules: the first signal raises nothing; it makes `descriptor` readable and is remembered. Inside
`raising` it also raises KeyboardInterrupt, for a wait that cannot check the descriptor. The second
signal has its default effect, so a command that waits for a dead broker can still be ended. A
signal that was ignored before (a shell's background job) stays ignored.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Handles signals inside its `with` block; `number` is the received signal, or None."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.descriptor, self._wake = os.pipe()
        self._before: dict[signal.Signals, Any] = {}
        self._raises = False

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._come)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        os.close(self.descriptor)
        os.close(self._wake)

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Inside the block a signal raises KeyboardInterrupt, also one received just before."""
        self._raises = True
        try:
            if self.number is not None:
                raise KeyboardInterrupt
            yield
        finally:
            self._raises = False

    def _come(self, number: int, _: FrameType | None) -> None:
        self.number = number
        os.write(self._wake, b"\0")
        self._restore()
        if self._raises:
            raise KeyboardInterrupt

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()
