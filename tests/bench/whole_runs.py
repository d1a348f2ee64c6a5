"""A command as a user runs it: its time on the wall, and the processor time and memory of it and of
every process below it, until the last of them has ended.
"""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.processes import STARTED, descendants, stat, used

LOOK_S = 0.1
END_S = 60.0
"""How long what it started may outlive it: a JVM ends a moment after its Python."""
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6
RESIDENT = 21
"""Field of /proc/PID/stat, counted from the state on, in pages (proc(5))."""
SHARE_EACH = 10
"""Looks to one at the shares: the kernel walks all pages for them, some ms for a JVM."""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """`begun_s`: since 1970, as files' times are. `peak_mb`: resident pages of all its processes at
    once, shared ones counted in each; `peak_share_mb`: each one counted once, however many
    processes share it, which is what the machine has to have. Of a run of a second it is 0."""

    begun_s: float
    wall_s: float
    cpu_s: float
    peak_mb: float
    peak_share_mb: float
    stdout: str


@dataclass
class Tree:
    """A process and all below it, as looked at again and again. Mutable."""

    root: int
    seconds: dict[tuple[int, str], float] = field(default_factory=dict)
    peak_mb: float = 0.0
    peak_share_mb: float = 0.0
    looks: int = 0

    def look(self) -> None:
        resident = 0.0
        found = [(self.root, stat(self.root)), *descendants(self.root)]
        # Who has lost its parent is below nobody any more.
        pids = {pid for pid, _ in found}
        orphans = [(pid, at, stat(pid)) for pid, at in self.seconds if pid not in pids]
        # Another process may have the number of one that has ended.
        found += [(pid, fields) for pid, at, fields in orphans if fields and fields[STARTED] == at]
        for pid, fields in found:
            if not fields:
                continue
            self.seconds[pid, fields[STARTED]] = used(fields)
            resident += int(fields[RESIDENT]) * PAGE_MB
        self.peak_mb = max(self.peak_mb, resident)
        self.looks += 1
        if self.looks % SHARE_EACH == 0:
            shares = sum(share_mb(pid) for pid, fields in found if fields)
            self.peak_share_mb = max(self.peak_share_mb, shares)

    def has_ended(self) -> bool:
        return not any(
            fields and fields[STARTED] == started and fields[0] != "Z"
            for pid, started in self.seconds
            for fields in [stat(pid)]
        )


def run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float = 1800
) -> Ran:
    """Run it in `folder`; what it says on stderr goes to `stderr` there. RuntimeError quotes that
    when it fails."""
    with (folder / "stderr").open("ab") as err, (folder / "stdout").open("wb") as out:
        begun_s, begun = time.time(), time.monotonic()
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
            stdout=out, stderr=err,
        )  # fmt: skip
    tree = Tree(process.pid)
    try:
        while (ended := _ended_within(process, LOOK_S)) is None:
            tree.look()
            if time.monotonic() - begun > timeout_s:
                raise RuntimeError(f"{command[:3]} takes more than {timeout_s:.0f} s")
        wall_s = time.monotonic() - begun
        deadline = time.monotonic() + END_S
        while not tree.has_ended() and time.monotonic() < deadline:
            tree.look()
            time.sleep(LOOK_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if ended:
        said = (folder / "stderr").read_text(errors="replace")[-3000:]
        raise RuntimeError(f"{' '.join(command[:4])} ended with {ended}:\n{said}")
    return Ran(
        begun_s=begun_s,
        wall_s=wall_s,
        cpu_s=sum(tree.seconds.values()),
        peak_mb=tree.peak_mb,
        peak_share_mb=tree.peak_share_mb,
        stdout=(folder / "stdout").read_text(),
    )


def share_mb(pid: int) -> float:
    """A process's own pages and its part of those that it shares (Pss of proc(5)); 0: it ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("Pss:"))


def _ended_within(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
