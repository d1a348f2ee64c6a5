"""A clock for claims about time that shall hold on a machine that is busy with other things."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path


class Stopwatch:
    """Time since it was made, but for that in which threads of `pids`, or of this process, were
    ready to run and others had the cores. Where nobody else computes it is a clock; so it is where
    the kernel does not tell (Linux does, in schedstat)."""

    def __init__(self, *pids: int) -> None:
        self._pids = (*pids, os.getpid())
        self._began_s = time.monotonic()
        self._before_s = self._withheld_s()

    @property
    def seconds(self) -> float:
        """What a thread waited for that has ended since counts as its own time."""
        now_s = self._withheld_s()
        withheld_s = sum(each_s - self._before_s.get(of, 0.0) for of, each_s in now_s.items())
        return time.monotonic() - self._began_s - withheld_s

    def _withheld_s(self) -> dict[Path, float]:
        """By thread, since it began."""
        found = {}
        for pid in self._pids:
            for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                with suppress(OSError):  # the thread ended
                    found[path] = int(path.read_text().split()[1]) / 1e9
        return found
