"""A local cluster for development: brokers in background processes, listed in a state file.

Rules: `DIRECTORY/cluster.json` has every broker, its ports and its process; a process is signalled
only if it is still the one that was started for this broker. Each broker has a session of its own,
so that it outlives the terminal; its output goes to its log file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from josefine_cli.base.admin import ask
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.output import note
from josefine_cli.base.waiting import waits

DEFAULT_DIRECTORY = Path("data/cluster")
DEFAULT_PORT = 9092
STATE_FILE = "cluster.json"
STATE_VERSION = 1
HOST = "127.0.0.1"
RAFT_PORT_STEP, ADMIN_PORT_STEP = 100, 200
"""Broker 1 serves clients on PORT, Raft on PORT + 100, health on PORT + 200; broker 2 follows."""
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.05
LOOK_S = 0.5
"""Interval of the check whether a starting broker can become ready at all."""
BROKERS_MAX = 64
WITH_TABLES = "JOSEFINE_WITH_TABLES"
"""The variable of `josefine broker --with-tables`."""
COMMAND = "from josefine_cli.main import main; main()"

FAST_TIMINGS: dict[str, dict[str, int]] = {
    "raft": {"heartbeat_timeout_ms": 30, "election_timeout_ms": 150},
    "cluster": {"heartbeat_interval_ms": 75, "session_timeout_ms": 300},
}
"""The fast profile of docs/how-to/cluster.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalBroker:
    """One broker of the state file; `pid` 0: it was never started."""

    id: int
    port: int
    raft_port: int
    admin_port: int
    pid: int = 0

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://{HOST}:{self.admin_port}"


def command_for(verb: str, directory: Path) -> str:
    """`josefine cluster VERB` for the cluster of this directory, quoted for a message."""
    where = "" if directory == DEFAULT_DIRECTORY else f" -d {shlex.quote(str(directory))}"
    return f"'josefine cluster {verb}{where}'"


class LocalCluster:
    """The cluster in one directory. Raises UserError and UsageError.

    `highest` is the highest number a broker ever had: a removed broker's directory is kept, and its
    number is not used again. `first_port` is broker 1's, even if that is removed; 0: free ports.
    `with_tables`: a table writer runs next to each broker that is started; None: never chosen.
    """

    def __init__(
        self,
        directory: Path,
        brokers: Iterable[LocalBroker] = (),
        *,
        first_port: int | None = None,
        highest: int = 0,
        with_tables: bool | None = None,
    ) -> None:
        self.directory = directory
        self.with_tables = with_tables
        self.brokers = {each.id: each for each in brokers}
        self.first_port = first_port
        self.highest = max([highest, *self.brokers])
        self._log_begins: dict[int, int] = {}
        """Position of each broker's last start in its log file."""

    @classmethod
    def load(cls, directory: Path) -> LocalCluster:
        """Read the state file."""
        path = directory / STATE_FILE
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
            if plain["version"] != STATE_VERSION:
                raise ValueError(f"version {plain['version']}, known is {STATE_VERSION}")
            brokers = [LocalBroker(**each) for each in plain["brokers"]]
            first_port, highest = plain.get("first_port"), plain.get("highest")
            with_tables = plain.get("with_tables")
            if with_tables not in (None, True, False):
                raise ValueError(f"with_tables is {with_tables!r}, expected true, false or null")
        except FileNotFoundError:
            raise no_cluster(directory) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} cannot be read: {error}") from error
        if first_port is None and brokers:  # a state file of an older version
            first_port = max(0, brokers[0].port - brokers[0].id + 1)
        if highest is None:
            highest = max((int(each.name[7:]) for each in _homes(directory)), default=0)
        return cls(
            directory, brokers, first_port=first_port, highest=highest, with_tables=with_tables
        )

    @staticmethod
    def exists(directory: Path) -> bool:
        return (directory / STATE_FILE).exists()

    def store(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        plain = {
            "version": STATE_VERSION,
            "first_port": self.first_port,
            "highest": self.highest,
            "with_tables": self.with_tables,
            "brokers": [asdict(self.brokers[key]) for key in sorted(self.brokers)],
        }
        path = self.directory / STATE_FILE
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
        temporary.replace(path)

    def discard(self) -> None:
        """Remove a cluster that was not created completely, and no other files."""
        for id_ in self.brokers:
            shutil.rmtree(self.home(id_), ignore_errors=True)
        (self.directory / STATE_FILE).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty: it has other files
            self.directory.rmdir()

    def broker(self, id_: int) -> LocalBroker:
        found = self.brokers.get(id_)
        if found is None:
            known = ", ".join(map(str, sorted(self.brokers)))
            raise UsageError(f"there is no broker {id_} in {self.directory}: there are {known}")
        return found

    @property
    def running(self) -> list[int]:
        return [id_ for id_, each in sorted(self.brokers.items()) if self.is_running(each)]

    @property
    def bootstrap(self) -> str:
        return ",".join(self.brokers[key].address for key in sorted(self.brokers))

    @property
    def admin_urls(self) -> list[str]:
        """The admin addresses, running brokers first."""
        running = self.running
        order = sorted(self.brokers, key=lambda id_: (id_ not in running, id_))
        return [self.brokers[id_].admin_url for id_ in order]

    def home(self, id_: int) -> Path:
        return self.directory / f"broker-{id_}"

    def _data(self, id_: int) -> Path:
        return self.home(id_) / "data"

    # -- making

    def add(self, count: int, port: int | None, *, fast: bool, replication: int) -> None:
        """Configure brokers until there are `count`: the first ones form the cluster, later ones
        join it.

        A new broker gets a number that no broker here ever had.
        """
        old = sorted(self.brokers)
        new = list(range(self.highest + 1, self.highest + 1 + count - len(old)))
        if port is None:
            port = DEFAULT_PORT if self.first_port is None else self.first_port
        taken = {
            each
            for broker in self.brokers.values()
            for each in (broker.port, broker.raft_port, broker.admin_port)
        }
        ports = _ports(new, port, taken)
        for id_ in new:
            if self.home(id_).exists():
                raise UsageError(
                    f"{self.home(id_)} exists already and is not a broker of this cluster:"
                    " choose another --directory"
                )
            self.brokers[id_] = LocalBroker(
                id=id_, port=ports[id_][0], raft_port=ports[id_][1], admin_port=ports[id_][2]
            )
        # The first brokers form the cluster as its voters. Later ones only know where to join:
        # with voters of their own they would form a second cluster.
        for id_ in new:
            if old:
                seeds = [f"{HOST}:{self.brokers[each].raft_port}" for each in old]
                raft: dict[str, Any] = {"seeds": seeds}
            else:
                raft = {"voters": [f"{each}@{HOST}:{self.brokers[each].raft_port}" for each in new]}
            self._write_config(id_, raft, fast=fast, replication=replication)
        if self.first_port is None:
            self.first_port = port
        self.highest = max([self.highest, *new])
        self.store()

    def _write_config(
        self, id_: int, raft: dict[str, Any], *, fast: bool, replication: int
    ) -> None:
        import yaml

        broker, home = self.brokers[id_], self.home(id_)
        timings = FAST_TIMINGS if fast else {"raft": {}, "cluster": {}}
        config: dict[str, dict[str, Any]] = {
            "broker": {
                "id": id_,
                "data_dir": str(self._data(id_).absolute()),
                "listeners": [f"PLAINTEXT://{broker.address}"],
            },
            "raft": {"listener": f"{HOST}:{broker.raft_port}", **raft, **timings["raft"]},
            "cluster": dict(timings["cluster"]),
            "topic_defaults": {
                "replication_factor": replication,
                "min_insync_replicas": max(1, replication - 1),
            },
            "admin": {"address": f"{HOST}:{broker.admin_port}"},
        }
        home.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump({key: each for key, each in config.items() if each}, sort_keys=False)
        self._config(id_).write_text(text, encoding="utf-8")

    def default_copies(self) -> dict[int, int]:
        """Broker → default replication factor of topics created through it."""
        import yaml

        found = {}
        for id_ in sorted(self.brokers):
            try:
                config = yaml.safe_load(self._config(id_).read_text(encoding="utf-8"))
                found[id_] = int(config["topic_defaults"]["replication_factor"])
            except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError):
                continue  # a file that the user has changed: only the broker reads it
        return found

    def _config(self, id_: int) -> Path:
        return self.home(id_) / "broker.yaml"

    def log_file(self, id_: int) -> Path:
        return self.home(id_) / "broker.log"

    # -- processes

    def is_running(self, broker: LocalBroker) -> bool:
        """Whether the process is still this broker's: its pid may have been reused."""
        if not broker.pid:
            return False
        try:
            os.kill(broker.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return False
        command = Path(f"/proc/{broker.pid}/cmdline")
        try:
            words = command.read_bytes().split(b"\0")
        except OSError:
            return not command.parent.parent.is_dir()  # without /proc the pid must do
        return os.fsencode(self._config(broker.id).absolute()) in words

    def start(self, ids: Sequence[int], *, keep: bool = False) -> None:
        """Start these brokers and wait until each serves. If one fails, the started ones are
        stopped, or keep running (`keep`)."""
        lost = [id_ for id_ in ids if self.brokers[id_].pid and not self._data(id_).exists()]
        began = {id_: self._spawn(id_) for id_ in ids}
        failures: list[tuple[int, str]] = []
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            for id_ in ids:
                try:
                    self._wait_serving(id_, began[id_], deadline)
                except UserError as error:
                    if not keep:
                        raise
                    failures.append((id_, str(error)))
        except BaseException:
            for process in began.values():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.wait()
            raise
        if failures:
            others_serve = len(failures) == 1 < len(ids)
            told = (self._way_back(id_, words, others_serve) for id_, words in failures)
            raise UserError("; ".join(told))
        for id_ in lost:
            alone = len(self.brokers) == 1
            what = "a new cluster began" if alone else "it copies everything from the others"
            note(f"the data of broker {id_} were gone: {what}")

    def _way_back(self, id_: int, words: str, others_serve: bool) -> str:
        """The message of a broker that lost its data, with the commands for this cluster: only
        once, even if it contains the refusals of several other brokers."""
        if others_serve:  # it was refused before they had a majority
            words = re.sub("start broker [0-9, ]+ first; then ", "", words)
        remove = command_for(f"remove {id_} --data-lost", self.directory)
        restart = command_for(f"restart {id_}", self.directory)
        order = f"'josefine cluster remove {id_} --data-lost[^']*', and start it again"
        said, *more = re.split(order, words)
        return f"{said}{remove} and {restart}" if more else words

    def _spawn(self, id_: int) -> subprocess.Popen[bytes]:
        addresses = self._data(id_) / "broker.addresses.json"
        addresses.unlink(missing_ok=True)
        config = str(self._config(id_).absolute())
        with self.log_file(id_).open("ab") as log:
            self._log_begins[id_] = log.tell()
            process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, "broker", "--config", config],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._environment(),
            )
        self.brokers[id_] = replace(self.brokers[id_], pid=process.pid)
        self.store()
        return process

    def _environment(self) -> dict[str, str]:
        """That of a broker: whether it runs a table writer was chosen for the cluster, so it does
        not depend on the shell of a later `restart`."""
        env = dict(os.environ)
        if self.with_tables is not None:
            env.pop(WITH_TABLES, None)
        return env | ({WITH_TABLES: "1"} if self.with_tables else {})

    def _wait_serving(self, id_: int, process: subprocess.Popen[bytes], deadline: float) -> None:
        addresses = self._data(id_) / "broker.addresses.json"
        look_at = time.monotonic() + LOOK_S
        with waits(lambda: f"broker {id_} to serve: {self._waits_for(id_)}"):
            while not addresses.exists():
                if process.poll() is not None:
                    raise UserError(f"broker {id_} did not start: {self.last_words(id_)}")
                if time.monotonic() > deadline:
                    raise UserError(
                        f"broker {id_} does not serve after {START_TIMEOUT_S:g} s: "
                        f"{self._waits_for(id_)} (see {self.log_file(id_)})"
                    )
                if time.monotonic() > look_at:
                    look_at = time.monotonic() + LOOK_S
                    self._check_majority(id_)
                time.sleep(POLL_S)

    def _check_majority(self, id_: int) -> None:
        """Raises UserError if too few voters run for this broker to ever serve."""
        view = self._view(id_)
        if not view or not view.get("waits_for") or view["raft"]["leader"] >= 0:
            return
        voters = [each["id"] for each in view["raft"]["voters"]]
        absent = [each for each in voters if each in self.brokers and each not in self.running]
        waits = str(view["waits_for"]).partition(" (")[0]  # the rest names the same brokers
        if absent and 2 * (len(voters) - len(absent)) <= len(voters):
            raise UserError(
                f"broker {id_} runs and does not serve yet, {waits}: "
                f"{_named(absent)} not running, {command_for('up', self.directory)} starts all"
            )

    def _view(self, id_: int) -> dict[str, Any]:
        """A starting broker's view of its cluster, which it has before it serves."""
        with contextlib.suppress(UserError):
            return ask(self.brokers[id_].admin_url, "/cluster")
        return {}

    def _waits_for(self, id_: int) -> str:
        return str(self._view(id_).get("waits_for") or self.last_words(id_))

    def last_words(self, id_: int) -> str:
        """The broker's error since its start, or its last log line."""
        try:
            said = self.log_file(id_).read_bytes()[self._log_begins.get(id_, 0) :]
        except OSError:
            said = b""
        lines = said.decode(errors="replace").splitlines()
        errors = [each for each in lines if each.startswith("error: ")]
        if not lines:
            return "its process has written nothing so far"
        return (errors or lines)[-1].removeprefix("error: ")

    def stop(self, ids: Sequence[int]) -> list[int]:
        """Send SIGTERM and wait; returns the brokers that had to be killed."""
        running = [id_ for id_ in ids if self.is_running(self.brokers[id_])]
        for id_ in running:
            self.signal(id_, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        killed = []
        with waits(lambda: f"the end of {_listed(self.running, running)}"):
            for id_ in running:
                if not self._wait_gone(id_, deadline):
                    self.signal(id_, signal.SIGKILL)
                    killed.append(id_)
        return killed

    def kill(self, id_: int) -> None:
        """kill -9."""
        self.signal(id_, signal.SIGKILL)
        self._wait_gone(id_, time.monotonic() + STOP_TIMEOUT_S)

    def signal(self, id_: int, number: int) -> None:
        broker = self.brokers[id_]
        if self.is_running(broker):
            with contextlib.suppress(ProcessLookupError):
                os.kill(broker.pid, number)

    def _wait_gone(self, id_: int, deadline: float) -> bool:
        broker = self.brokers[id_]
        while self.is_running(broker):
            with contextlib.suppress(ChildProcessError):  # ours, when `up` ran in this process
                os.waitpid(broker.pid, os.WNOHANG)
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def forget(self, id_: int) -> None:
        """Forget a broker that was removed from the cluster: it is not started again."""
        del self.brokers[id_]
        self.store()


def _named(ids: Sequence[int]) -> str:
    """`broker 2 is`, `brokers 2, 3 are`."""
    numbers = ", ".join(map(str, ids))
    return f"broker {numbers} is" if len(ids) == 1 else f"brokers {numbers} are"


def _listed(running: Sequence[int], of: Sequence[int]) -> str:
    left = [str(each) for each in of if each in running]
    return f"broker{'' if len(left) == 1 else 's'} {', '.join(left)}"


def no_cluster(directory: Path) -> UsageError:
    """The error for a directory without a state file."""
    return UsageError(f"no cluster in {directory}: {command_for('up', directory)} makes one")


def _homes(directory: Path) -> list[Path]:
    """The directories of current and removed brokers."""
    return [each for each in directory.glob("broker-*") if each.name[7:].isdecimal()]


def _ports(ids: Sequence[int], first_port: int, taken: set[int]) -> dict[int, tuple[int, int, int]]:
    """(client, raft, admin) port per broker; `first_port` 0: free ports."""
    if first_port == 0:
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(3 * len(ids))]
            for each in sockets:
                each.bind((HOST, 0))
            free = [each.getsockname()[1] for each in sockets]
        return {id_: tuple(free[3 * at : 3 * at + 3]) for at, id_ in enumerate(ids)}
    chosen: dict[int, tuple[int, int, int]] = {}
    for id_ in ids:
        port = first_port + id_ - 1
        if port + ADMIN_PORT_STEP > 65_535:
            raise UsageError(f"--port {first_port} leaves no room below 65536 for broker {id_}")
        mine = (port, port + RAFT_PORT_STEP, port + ADMIN_PORT_STEP)
        for number in mine:
            if number in taken:
                raise UsageError(
                    f"port {number} is used by a broker of this cluster: choose another --port"
                )
        taken |= set(mine)
        chosen[id_] = mine
    return chosen
