"""Progress notes of a waiting command: no command is silent for long.

Rules: every blocking step is registered as a wait (`waits`; every operation of the client is one).
A thread checks them and reports a long one to stderr, after FIRST_S and again every AGAIN_S. Waits
are nested: the outermost one determines the time, the innermost one the reason. A wait for input
from people (stdin, `consume --follow`) is not registered.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator

Describe = Callable[[], str]

FIRST_S = 3.0
"""A wait that lasts longer is reported."""
AGAIN_S = 8.0
"""Interval of further reports: ten seconds of silence are too long."""
INNER_S = 1.0
"""An inner wait is the reason if it lasts at least this long."""


class Wait:
    """One registered wait."""

    __slots__ = ("began_s", "describe", "told_s")

    def __init__(self, describe: Describe, now_s: float) -> None:
        self.describe = describe
        self.began_s = now_s
        self.told_s: float | None = None

    def due_s(self) -> float:
        return self.began_s + FIRST_S if self.told_s is None else self.told_s + AGAIN_S


class Waits:
    """The current waits, the outermost first. It has no thread and no clock."""

    def __init__(self) -> None:
        self._waits: list[Wait] = []

    def begin(self, describe: Describe, now_s: float) -> Wait:
        wait = Wait(describe, now_s)
        self._waits.append(wait)
        return wait

    def end(self, wait: Wait) -> None:
        self._waits.remove(wait)

    def moved(self, wait: Wait, now_s: float) -> None:
        """The wait has made progress: its time starts again."""
        wait.began_s, wait.told_s = now_s, None

    def due_s(self) -> float | None:
        """When the next report is due; None: there is none to come."""
        return self._waits[0].due_s() if self._waits else None

    def take_due(self, now_s: float) -> tuple[Wait, ...]:
        """The wait to report now, with the inner wait that may be its reason; or nothing."""
        due_s = self.due_s()
        if due_s is None or now_s < due_s:
            return ()
        first, *others = self._waits
        first.told_s = now_s
        inner = [each for each in others if now_s - each.began_s >= INNER_S]
        return (first, *inner[-1:])

    def lasts(self, wait: Wait) -> bool:
        return wait in self._waits


def sentence(due: tuple[Wait, ...], now_s: float) -> str:
    """`still waiting after 3 s: produce: partition t-0: 1 in sync, 2 needed`."""
    reasons = [each.describe() for each in due]
    words = ": ".join(each for each in reasons if each)
    return f"still waiting after {now_s - due[0].began_s:.0f} s: {words}"


class Watcher:
    """`Waits` with a reporting thread, which starts with the first wait."""

    def __init__(self) -> None:
        self._waits = Waits()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._wakes_s = math.inf
        """Next wake-up of the thread. It is early enough for most new waits, so that a thousand
        short waits do not wake it."""

    @contextlib.contextmanager
    def on(self, describe: Describe) -> Iterator[Callable[[], None]]:
        """Register a wait for the block; call the yielded function after progress."""
        with self._changed:
            wait = self._waits.begin(describe, time.monotonic())
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="waiting", daemon=True)
                self._thread.start()
            elif wait.due_s() < self._wakes_s:
                self._changed.notify()

        def moved() -> None:
            with self._changed:
                self._waits.moved(wait, time.monotonic())

        try:
            yield moved
        finally:
            with self._changed:
                self._waits.end(wait)

    def _run(self) -> None:
        while True:
            with self._changed:
                now_s = time.monotonic()
                due = self._waits.take_due(now_s)
                if not due:
                    due_s = self._waits.due_s()
                    self._wakes_s = math.inf if due_s is None else due_s
                    self._changed.wait(None if due_s is None else due_s - now_s)
                    continue
            words = sentence(due, now_s)  # may take time, so it runs without the lock
            with self._changed:
                if self._waits.lasts(due[0]) and sys.stderr is not None:
                    with contextlib.suppress(OSError, ValueError):  # stderr or its reader is closed
                        print(words, file=sys.stderr, flush=True)


_WATCHER = Watcher()


def waits(describe: Describe) -> contextlib.AbstractContextManager[Callable[[], None]]:
    """Register a wait for the block; `describe` is called from another thread."""
    return _WATCHER.on(describe)
