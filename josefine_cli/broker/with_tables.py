"""The table writer of `josefine broker --with-tables`: a child process next to the broker.

It starts once the broker serves, ends with it, and is started again if it dies. Of several brokers
each has one; the writers share the table topics by leases.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from josefine_broker.host.disk.data_dir import ADDRESSES_FILE

COMMAND = "from josefine_cli.main import main; main()"
PARENT = "JOSEFINE_TABLES_PARENT"
"""The process whose end is also the writer's, even if it was killed."""
POLL_S = 0.1
PAUSE_S = 2.0
"""Before a writer that died is started again."""
STOP_S = 20.0


@contextlib.contextmanager
def table_writer(data_dir: Path) -> Iterator[None]:
    """Run a table writer for the broker that starts in this block."""
    ended = threading.Event()
    thread = threading.Thread(target=_keep, args=(data_dir / ADDRESSES_FILE, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(STOP_S)


def _keep(addresses: Path, ended: threading.Event) -> None:
    """Wait for the broker's address, then keep a writer running until `ended`."""
    while (bootstrap := bootstrap_in(addresses, os.getpid())) is None:
        if ended.wait(POLL_S):
            return
    words = [sys.executable, "-c", COMMAND, "tables", "run", "--bootstrap", bootstrap]
    while not ended.is_set():
        env = {**os.environ, PARENT: str(os.getpid())}
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=env)
        while process.poll() is None and not ended.wait(POLL_S):
            pass
        if ended.is_set():
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S / 2)
            process.kill()
            return
        ended.wait(PAUSE_S)


def bootstrap_in(addresses: Path, pid: int) -> str | None:
    """The first listener of the broker in this process; None until it serves. The file may be one
    of an earlier broker."""
    try:
        found = json.loads(addresses.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return str(next(iter(found["listeners"].values()))) if found["pid"] == pid else None
