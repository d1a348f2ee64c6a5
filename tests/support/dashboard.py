"""`josefine dashboard` as a process."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.broker import BrokerProcess
from tests.support.cli import COMMAND, environment
from tests.support.processes import ChildProcess


@contextmanager
def dashboard(broker: BrokerProcess, *options: str) -> Iterator[str]:
    """Where it is, as it says itself."""
    with dashboard_process(broker, *options) as (url, _):
        yield url


@contextmanager
def dashboard_process(broker: BrokerProcess, *options: str) -> Iterator[tuple[str, int]]:
    """The same and its process's id."""
    with ChildProcess(
        [*COMMAND, "dashboard", "--listen", "127.0.0.1:0", "--admin", broker.admin_url, *options],
        stdout=subprocess.PIPE, env=environment(broker.bootstrap),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("dashboard on "), line
        yield line.removeprefix("dashboard on ").strip(), process.pid
        process.send_signal(signal.SIGINT)
        process.stdout.close()
        assert process.wait(90) == 0
