"""Runs a command again and again beside busy loops: no test may need an idle machine.

`python -m tests.beside_load [--runs 3] [--loops 2] [--logs FOLDER] [COMMAND ...]`; the command is
`./build.sh test` unless given. One line per run with its last line; ends at the first that fails.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOOP = "import ctypes; ctypes.CDLL(None).prctl(1, 9)\nwhile True: pass"
"""Dies with us: prctl(PR_SET_PDEATHSIG, SIGKILL)."""


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many processes that only compute."""
    processes = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--loops", type=int, default=2)
    parser.add_argument("--logs", type=Path, help="default: a new temporary folder")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    given = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
    logs = asked.logs or Path(tempfile.mkdtemp(prefix="josefine-runs-"))
    logs.mkdir(parents=True, exist_ok=True)
    with busy(asked.loops):
        for run in range(1, asked.runs + 1):
            path, began_s = logs / f"run-{run}.log", time.monotonic()
            with path.open("wb") as log:
                command = given or ["./build.sh", "test"]
                code = subprocess.call(
                    command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            last = path.read_text(errors="replace").strip().rpartition("\n")[2]
            seconds = time.monotonic() - began_s
            print(f"run {run}: exit {code} after {seconds:.0f} s: {last} ({path})", flush=True)
            if code:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
