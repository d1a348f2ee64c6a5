"""The two brokers under measure as processes of their own, and what the kernel says of them."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until

TOPIC = "bench"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
REPOSITORY = Path(__file__).resolve().parents[2]


class Running:
    """A broker that listens, with its topic."""

    def __init__(self, name: str, bootstrap: str, pid: int) -> None:
        self.name, self.bootstrap, self.pid = name, bootstrap, pid

    def cpu_seconds(self) -> float:
        """User and system time of the process, its threads included."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def resident_mb(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"no VmRSS of process {self.pid}")


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(30)


@contextmanager
def josefine(directory: Path, partitions: int = 1, **config: object) -> Iterator[Running]:
    with BrokerProcess(directory, **config) as broker:
        create_topic(broker.bootstrap, TOPIC, partitions)
        yield Running("josefine", broker.bootstrap, broker.pid)


@contextmanager
def other_checkout(directory: Path) -> Iterator[Running]:
    """The broker of another checkout (`BENCH_CHECKOUT`): what a change costs, before and after."""
    with BrokerProcess(directory, start=False) as broker:
        broker.code = Path(os.environ["BENCH_CHECKOUT"])
        broker.python = os.environ.get("BENCH_CHECKOUT_PYTHON", broker.python)
        broker.start()
        create_topic(broker.bootstrap, TOPIC, 1)
        yield Running("checkout", broker.bootstrap, broker.pid)


def headers(directory: Path) -> AbstractContextManager[Running]:
    """Ours, which checks of what is produced the headers alone: what validation costs."""
    return josefine(directory, log__validate_records="headers")


@contextmanager
def bare(directory: Path) -> Iterator[Running]:
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.bench.bare", str(directory), TOPIC]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError("bare.py did not start")
        yield Running("bare", line.split()[-1], process.pid)
    finally:
        process.kill()
        process.wait()


BESIDE = {"bare": bare, "headers": headers, "checkout": other_checkout}
PEER = os.environ.get("BENCH_BESIDE", "bare")
BROKERS = {"josefine": josefine, PEER: BESIDE[PEER]}


def client(module: str, *arguments: object) -> str:
    """Run a client of this folder as its own process; its last line of stdout."""
    command = [sys.executable, "-m", f"tests.bench.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[2:])}: {done.stderr.strip()[-2000:]}")
    return done.stdout.strip().splitlines()[-1]


QUIET_SECONDS = 0.2


def wait_until_quiet(broker: Running) -> None:
    """Let the broker finish what it does after its last answer, so that its CPU time is whole."""
    samples = [(time.monotonic(), broker.cpu_seconds())]

    def quiet() -> bool:
        now = time.monotonic()
        then, before = samples[-1]
        if now - then < QUIET_SECONDS:
            return False
        samples.append((now, broker.cpu_seconds()))
        return samples[-1][1] - before <= 2 / CLOCK_TICKS

    wait_until(quiet, 30, "the broker is idle")
