"""A real broker process for tests: `josefine broker` on ports and in a directory of its own.

Whoever starts one stops it: use the `broker` fixture or `with BrokerProcess(tmp_path) as broker`.
Its stderr goes to a file that a failing start quotes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.ports import free_ports
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

START_TIMEOUT_S = 90.0
"""A second where the machine is idle, 30 beside ten others that compute."""
COMMAND = (sys.executable, "-c", "from josefine_cli.main import main; main()")
DIE_WITH_PARENT = "import ctypes; ctypes.CDLL(None).prctl(1, 9); "
"""prctl(PR_SET_PDEATHSIG, SIGKILL): a test run that is killed leaves no broker behind."""
REPOSITORY = Path(__file__).resolve().parents[2]


class BrokerProcess(ServerProcess):
    """One broker process. `overrides` are configuration keys with `__` for the dot:
    `BrokerProcess(tmp_path, log__flush_messages=1)`."""

    def __init__(
        self,
        directory: Path,
        *,
        start: bool = True,
        prefix: tuple[str, ...] = (),
        **overrides: object,
    ) -> None:
        """`prefix` goes before the command: what the process is to run under."""
        super().__init__(directory, "broker.log")
        self.data_dir = self.directory / "data"
        self.code = REPOSITORY
        """The checkout whose code it runs from its next start on."""
        self.python = sys.executable
        """The interpreter that runs it."""
        self.config_file = self.directory / "broker.yaml"
        self.overrides = overrides
        self._prefix = prefix
        self.bootstrap = ""
        self.admin_url = ""
        self._port = 0
        self._admin_port = 0
        if start:
            self.start()

    def write_config(self) -> None:
        """The configuration of the next start. A restart keeps its port, as a real broker does."""
        if not self._port:
            self._port, self._admin_port = free_ports(2)
        config: dict[str, dict[str, Any]] = {
            "broker": {
                "data_dir": str(self.data_dir),
                "listeners": [f"PLAINTEXT://127.0.0.1:{self._port}"],
            },
            "raft": {"listener": "127.0.0.1:0"},
            "admin": {"address": f"127.0.0.1:{self._admin_port}"},
        }
        for name, value in self.overrides.items():
            section, _, key = name.partition("__")
            config.setdefault(section, {})[key] = value
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text(json.dumps(config))  # JSON is YAML

    def spawn(self) -> None:
        """Start the process without waiting for it to be ready."""
        assert not self.alive, "the broker is already running"
        self.write_config()
        (self.data_dir / "broker.addresses.json").unlink(missing_ok=True)
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._prefix, *self._command(), "broker", "--config", str(self.config_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(self.code)},
                cwd=self.directory,
            )

    def start(self) -> None:
        """Start and wait until it serves."""
        self.spawn()
        self.wait_serving()

    def wait_serving(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Until it accepts clients; its ports are known then, and kept."""
        path = self.data_dir / "broker.addresses.json"
        try:
            wait_until(lambda: path.exists() or not self.alive, timeout_s, "broker start")
            assert self.alive, "the broker ended"
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.output[-4000:]}") from None
        addresses = json.loads(path.read_text())
        self.bootstrap = next(iter(addresses["listeners"].values()))
        self.admin_url = addresses["admin"]
        self._port = int(self.bootstrap.rpartition(":")[2])
        self._admin_port = int(self.admin_url.rpartition(":")[2])

    def get(self, path: str) -> tuple[int, str]:
        """GET an admin path: status and body."""
        try:
            with urllib.request.urlopen(self.admin_url + path, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def _command(self) -> list[str]:
        """Linux calls the *thread* that started a process its parent: only the main one outlives
        it."""
        _, flag, code = COMMAND
        if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
            return [self.python, flag, code]
        return [self.python, flag, DIE_WITH_PARENT + code]
