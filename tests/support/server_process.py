"""A server as a process of a test: alive or not, killed, stopped and started again."""

from __future__ import annotations

import signal
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

STOP_TIMEOUT_S = 90.0
"""A broker that hands over takes 5 s where a cluster lets it wait, on a busy machine far more."""


class ServerProcess(ABC):
    """Whoever starts one stops it: it is a context manager. What it says goes to `log_file`."""

    def __init__(self, directory: Path, log_name: str) -> None:
        self.directory = Path(directory)
        self.log_file = self.directory / log_name
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def start(self) -> None:
        """Start and wait until it serves."""

    @property
    def pid(self) -> int:
        assert self.process is not None, "it is not running"
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def output(self) -> str:
        """Everything it said so far, all starts together."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def kill(self) -> None:
        """kill -9."""
        self._signal(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._signal(signal.SIGTERM)

    def restart(self) -> None:
        """Start again in the same directory, on the same port; stops it first if it runs."""
        if self.alive:
            self.stop()
        self.start()

    def close(self) -> None:
        """No process of it is left."""
        if self.alive:
            self.kill()

    def _signal(self, number: int) -> int:
        assert self.process is not None, "it was never started"
        self.process.send_signal(number)
        return self.process.wait(STOP_TIMEOUT_S)
