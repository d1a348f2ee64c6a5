"""Processor seconds of Spark's processes and of the broker, as the kernel counts them.

Unlike time on the wall they are about the same on an idle and on a busy machine, and they are
what a shared cluster pays for.
"""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PARENT, USER, SYSTEM, STARTED = 1, 11, 12, 19
"""Fields of /proc/PID/stat, counted from the state on (proc(5))."""
LOOK_S = 0.2


class Seconds(NamedTuple):
    """User and system time, in seconds, of each kind of process."""

    jvm: float
    python: float
    """Every process below the JVM: the daemon, its workers, the runners on the driver."""
    broker: float

    @property
    def total(self) -> float:
        return self.jvm + self.python + self.broker

    def since(self, before: "Seconds") -> "Seconds":
        return Seconds(*(now - then for now, then in zip(self, before, strict=True)))

    def over(self, units: float) -> "Seconds":
        return Seconds(*(value / units for value in self))


class Meter:
    """Adds up what a JVM, all below it and a broker use, from its start on.

    PySpark's daemon ignores the end of its workers, so nobody is told what they used: the meter
    looks often enough to have seen nearly all of it.
    """

    def __init__(self, jvm: int, broker: int) -> None:
        self._jvm, self._broker = jvm, broker
        self._seen: dict[tuple[int, str], float] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, name="meter", daemon=True).start()

    def spent(self) -> Seconds:
        """So far. Of processes that have ended, what they had used when last seen."""
        with self._lock:
            self._look()
            below = sum(self._seen.values())
        return Seconds(jvm=used_by(self._jvm), python=below, broker=used_by(self._broker))

    def _watch(self) -> None:
        while True:
            with self._lock:
                self._look()
            time.sleep(LOOK_S)

    def _look(self) -> None:
        for pid, fields in descendants(self._jvm):
            self._seen[pid, fields[STARTED]] = used(fields)


def used_by(pid: int) -> float:
    """Seconds of one process; 0 once it has ended."""
    fields = stat(pid)
    return used(fields) if fields else 0.0


def used(fields: list[str]) -> float:
    """User and system seconds, of these fields."""
    return (int(fields[USER]) + int(fields[SYSTEM])) / CLOCK_TICKS


def descendants(pid: int) -> Iterator[tuple[int, list[str]]]:
    """Each process below it, with the fields of its /proc/PID/stat."""
    children: dict[int, list[tuple[int, list[str]]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := stat(int(name))):
            children.setdefault(int(fields[PARENT]), []).append((int(name), fields))
    waiting = children.get(pid, [])
    while waiting:
        one, fields = waiting.pop()
        yield one, fields
        waiting.extend(children.get(one, ()))


def stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none once the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
