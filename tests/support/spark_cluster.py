"""A standalone Spark cluster from PySpark's own scripts: a master and its workers, on loopback.

    with SparkCluster(tmp_path) as cluster: …cluster.url…

Each worker has one core, so two workers run two tasks at once. Their JVMs die with the test run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pyspark

from josefine_spark.sessions.class_data_sharing import OPTIONS, with_archive
from tests.support.ports import free_ports
from tests.support.shipping import bare_environment
from tests.support.waiting import wait_until

START_TIMEOUT_S = 240.0
SOCKET_TIMEOUT_S = 240
"""How long Python and its JVM wait for each other; 15 by itself, which a busy machine exceeds."""
PYSPARK = Path(pyspark.__file__).resolve().parent
DIE_WITH_PARENT = (
    sys.executable,
    "-c",
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])",
)
"""prctl(PR_SET_PDEATHSIG, SIGKILL), which lasts over exec."""


class SparkCluster:
    """`workers` of one core and `memory` each; executors are their child processes."""

    def __init__(self, directory: Path, workers: int = 2, memory: str = "1g") -> None:
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self._processes: list[subprocess.Popen[bytes]] = []
        port, self._web_port = free_ports(2)
        self.url = f"spark://127.0.0.1:{port}"
        try:
            self._spawn("master.Master", "--port", str(port), "--webui-port", str(self._web_port))
            wait_until(lambda: self.state() or self._ended(), START_TIMEOUT_S, "the master")
            for number in range(workers):
                self._spawn(
                    "worker.Worker", "--cores", "1", "--memory", memory, "--port", "0",
                    "--webui-port", "0", "--work-dir", str(directory / f"work-{number}"), self.url,
                )  # fmt: skip
            wait_until(
                lambda: self.state().get("aliveworkers") == workers or self._ended(),
                START_TIMEOUT_S,
                "all workers",
            )
            assert not self._ended(), self.output
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> SparkCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def output(self) -> str:
        logs = sorted(self.directory.glob("*.log"))
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in logs)

    def state(self) -> dict[str, Any]:
        """What the master's page says as JSON; empty while it does not answer."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._web_port}/json/", timeout=10
            ) as r:
                found: dict[str, Any] = json.load(r)
                return found
        except (urllib.error.URLError, ConnectionError, ValueError):
            return {}

    def close(self) -> None:
        """SIGTERM to the workers, who end their executors, then to the master."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def _spawn(self, name: str, *arguments: str) -> None:
        command = [*DIE_WITH_PARENT, str(PYSPARK / "bin" / "spark-class")]
        command += [f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *arguments]
        log = self.directory / f"{len(self._processes)}-{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env=environment(), cwd=self.directory,
            )  # fmt: skip
        self._processes.append(process)

    def _ended(self) -> bool:
        return any(process.poll() is not None for process in self._processes)


def spark_home(directory: Path) -> Path:
    """PySpark through links, for a local-cluster: its executors keep their files in its folder.

    The archive of classes is not for these: it fits the class path that it was made with.
    """
    home = directory / "spark-home"
    home.mkdir(parents=True)
    for name in ("bin", "sbin", "jars", "python"):
        (home / name).symlink_to(PYSPARK / name)
    return home


def environment(home: Path = PYSPARK) -> dict[str, str]:
    """Of a Spark process that knows nothing of our sources and binds to loopback only."""
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME")
    kept = {key: value for key, value in bare_environment().items() if key not in names}
    return {
        **kept,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def submit(
    script: Path, arguments: list[str], *, conf: dict[str, str], cwd: Path, **options: str
) -> subprocess.Popen[str]:
    """`spark-submit` of a script; `py_files="x.zip"` is --py-files; `env_NAME` sets a variable."""
    home = spark_home(cwd) if options["master"].startswith("local-cluster") else PYSPARK
    command = [str(home / "bin" / "spark-submit")]
    variables = {}
    for name, value in options.items():
        if name.startswith("env_"):
            variables[name.removeprefix("env_")] = value
        else:
            command += [f"--{name.replace('_', '-')}", value]
    for key, value in {**CONF, **conf}.items():
        command += ["--conf", f"{key}={value}"]
    return subprocess.Popen(
        [*DIE_WITH_PARENT, *command, str(script), *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**environment(home), **variables}, cwd=cwd,
    )  # fmt: skip


_SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_JAVA = {OPTIONS: _SHORT, **with_archive({OPTIONS: _SHORT})}[OPTIONS]
CONF = {
    "spark.python.authenticate.socketTimeout": f"{SOCKET_TIMEOUT_S}s",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
}


def parent_of(pid: int) -> int:
    """From /proc: the fourth field, behind the name in brackets."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
