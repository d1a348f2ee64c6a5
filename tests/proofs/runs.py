"""What proofs share: a folder with files of pipelines, their commands, records, what a run uses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.records.builder import Record, build_batch
from tests.support import quick_spark

ROOT = Path(__file__).resolve().parents[2]

SPARK = f"""
version: 1
name: proof
{quick_spark.SPARK}"""
"""The start of a file whose runs are killed all the time."""


@dataclass(kw_only=True)
class Lab:
    """A folder and a broker's address; the files use them as ${LAB} and ${BOOTSTRAP}."""

    folder: Path
    bootstrap: str

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """A verb of `josefine pipeline` as its own process group; its output is in runs.log."""
        own = {"LAB": str(self.folder), "BOOTSTRAP": self.bootstrap, "PYTHONPATH": str(ROOT)}
        with (self.folder / "runs.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "josefine_cli.main", "pipeline", *arguments],
                env={**os.environ, **own, **environment}, cwd=self.folder, text=True,
                start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def commits(self, tables: str = "tables/*") -> int:
        """The commits in the logs of tables."""
        return sum(1 for _ in self.folder.glob(f"{tables}/_delta_log/*.json"))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """By delta-rs."""
        path = self.folder / "tables" / table
        found: list[dict[str, Any]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
        return found


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL for the driver with its JVM and workers, which are one group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def produce(client: BlockingClient, partition: TopicPartition, values: Iterable[bytes]) -> None:
    """One batch of records without keys."""
    now_ms = time.time_ns() // 1_000_000
    client.produce({partition: build_batch([Record(None, value, (), now_ms) for value in values])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a process group uses: driver, JVM and workers."""

    gigabytes: float
    cpu_s: float
    ended_cpu_s: float
    """Of its children that have ended."""


def used_by(group: int) -> Used:
    """As /proc has it."""
    return _used(Path("/proc").glob("[0-9]*/stat"), group)


def used_by_process(pid: int) -> Used:
    """What one process uses, without its children that live."""
    return _used([Path(f"/proc/{pid}/stat")], None)


def _used(stats: Iterable[Path], group: int | None) -> Used:
    pages = own = ended = 0
    for stat in stats:
        with suppress(OSError):
            found = stat.read_text().rpartition(")")[2].split()
            if group in (None, int(found[2])):
                pages += int(stat.with_name("statm").read_text().split()[1])
                own += sum(map(int, found[11:13]))
                ended += sum(map(int, found[13:15]))
    ticks = os.sysconf("SC_CLK_TCK")
    return Used(
        gigabytes=pages * os.sysconf("SC_PAGE_SIZE") / 2**30,
        cpu_s=own / ticks,
        ended_cpu_s=ended / ticks,
    )


def folder_of(asked: Path | None, name: str) -> Path:
    """The folder that was asked for, or a new temporary one."""
    folder = asked or Path(tempfile.mkdtemp(prefix=f"josefine-{name}-"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
