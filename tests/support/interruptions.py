"""Ctrl-C at any line of a command: a child is forked for each, and interrupts itself there.

Run as a process of its own, because it forks before the schemas of messages are loaded: their first
import is where an exception from a signal does most harm. It writes one JSON object, `Outcome`, for
each interruption to stdout.

    python -m tests.support.interruptions TRIALS SEED consume TOPIC --follow
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, NamedTuple

import josefine_cli.kafka.consume
import josefine_cli.verbs  # noqa: F401
from josefine_cli.main import run

WORKS_S = 2.0
"""A command has done all that is interrupted after this time of waiting for records."""
HANGS_S = 60.0
EXIT_HANGING = 99


class Outcome(NamedTuple):
    """How a command ended that was interrupted at `place`, the `line`-th line that it executed."""

    line: int
    place: str
    code: int
    stderr: str
    took_s: float
    """From its start."""


class Interrupted:
    """Counts the executed lines of this thread, and interrupts at one of them."""

    def __init__(self, at: int | None) -> None:
        self.place = ""
        self.lines = 0
        self._at = at

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines == self._at:
                sys.settrace(None)
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                signal.raise_signal(signal.SIGINT)
        return self.trace


def in_child(arguments: list[str], at: int | None) -> tuple[int, Outcome]:
    """Run the command in a fork; returns the lines it executed and how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        err, seen = Path(folder, "err"), Path(folder, "seen")
        began_s = time.monotonic()
        child = os.fork()
        if child == 0:
            _be_interrupted(arguments, at, err, seen)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        took_s = time.monotonic() - began_s
        lines, place = json.loads(seen.read_text()) if seen.exists() else (0, "")
        return lines, Outcome(at or lines, place, code, err.read_text(), took_s)


def _be_interrupted(arguments: list[str], at: int | None, err: Path, seen: Path) -> None:
    """Does not return."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT), 2)
    interrupted = Interrupted(at)

    threading.Timer(WORKS_S + HANGS_S, os._exit, (EXIT_HANGING,)).start()
    if at is None:
        threading.Timer(WORKS_S, os.kill, (os.getpid(), signal.SIGINT)).start()
    sys.settrace(interrupted.trace)
    code = run(arguments)
    sys.settrace(None)
    seen.write_text(json.dumps([interrupted.lines, interrupted.place]))
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    trials, seed, *arguments = sys.argv[1:]
    rng = Random(int(seed))
    in_child(arguments, None)  # the first member of a group executes more lines than the next
    lines, whole = in_child(arguments, None)
    print(json.dumps(whole._asdict()))
    for _ in range(int(trials)):
        _, outcome = in_child(arguments, rng.randint(1, lines))
        print(json.dumps(outcome._asdict()), flush=True)


if __name__ == "__main__":
    main()
