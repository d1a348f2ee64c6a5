"""The one place where a command that waits says for what: no command is silent for long.

Rules: whatever may block is entered as a wait (`waits`; every operation of the client is one); a
thread looks at them and tells, on stderr, the one that lasts, after FIRST_S and again every
AGAIN_S. Waits are nested: the outermost one's time counts, and the innermost says why. What waits
for people (stdin, `consume --follow`) is no wait.
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
"""Who waits longer than this is told for what."""
AGAIN_S = 8.0
"""And again after that: ten seconds of silence are too many."""
INNER_S = 1.0
"""A wait within another one is the reason when it lasts as long."""


class Wait:
    """One thing that is waited for."""

    __slots__ = ("began_s", "describe", "told_s")

    def __init__(self, describe: Describe, now_s: float) -> None:
        self.describe = describe
        self.began_s = now_s
        self.told_s: float | None = None

    def due_s(self) -> float:
        return self.began_s + FIRST_S if self.told_s is None else self.told_s + AGAIN_S


class Waits:
    """What is waited for now, the outermost first. No thread and no clock of its own."""

    def __init__(self) -> None:
        self._waits: list[Wait] = []

    def begin(self, describe: Describe, now_s: float) -> Wait:
        wait = Wait(describe, now_s)
        self._waits.append(wait)
        return wait

    def end(self, wait: Wait) -> None:
        self._waits.remove(wait)

    def moved(self, wait: Wait, now_s: float) -> None:
        """What it waits for comes nearer: its time begins anew."""
        wait.began_s, wait.told_s = now_s, None

    def due_s(self) -> float | None:
        """When `tell` has something to say; None: not as things are."""
        return self._waits[0].due_s() if self._waits else None

    def take_due(self, now_s: float) -> tuple[Wait, ...]:
        """The wait that is to be told now, and the one within it that may say why; or nothing."""
        due_s = self.due_s()
        if due_s is None or now_s < due_s:
            return ()
        first, *others = self._waits
        first.told_s = now_s
        inner = [each for each in others if now_s - each.began_s >= INNER_S]
        return (first, *inner[-1:])

    def lasts(self, wait: Wait) -> bool:
        return wait in self._waits


def sentence(told: tuple[Wait, ...], now_s: float) -> str:
    """`still waiting after 3 s: produce: partition t-0: 1 in sync, 2 needed`."""
    said = [each.describe() for each in told]
    words = ": ".join(each for each in said if each)
    return f"still waiting after {now_s - told[0].began_s:.0f} s: {words}"


class Watcher:
    """`Waits` with a thread that tells; the thread begins with the first wait."""

    def __init__(self) -> None:
        self._waits = Waits()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._wakes_s = math.inf
        """When the thread looks again by itself: in time for most waits that begin, so a thousand
        short ones do not wake it."""

    @contextlib.contextmanager
    def on(self, describe: Describe) -> Iterator[Callable[[], None]]:
        """Within it this is waited for; call what it yields when that comes nearer."""
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
                told = self._waits.take_due(now_s)
                if not told:
                    due_s = self._waits.due_s()
                    self._wakes_s = math.inf if due_s is None else due_s
                    self._changed.wait(None if due_s is None else due_s - now_s)
                    continue
            words = sentence(told, now_s)  # which may take time: nobody is held up by it
            with self._changed:
                if self._waits.lasts(told[0]) and sys.stderr is not None:
                    with contextlib.suppress(OSError, ValueError):  # closed, or its reader is gone
                        print(words, file=sys.stderr, flush=True)


_WATCHER = Watcher()


def waits(describe: Describe) -> contextlib.AbstractContextManager[Callable[[], None]]:
    """Within it the command waits for what `describe` says, from another thread."""
    return _WATCHER.on(describe)
