"""The machine, the versions and the load under which a case is measured."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.bench.report.results import Conditions
from tests.support.apache_kafka import VERSION as KAFKA_VERSION

REPOSITORY = Path(__file__).resolve().parents[3]
MEASURED = ("raft", "josefine_*", "pipelines", "pyspark_josefine", "conf", "tests/bench")
PACKAGES = ("uvloop", "confluent-kafka", "pyspark", "delta-spark", "numba")


def conditions() -> Conditions:
    """Now, on this machine."""
    return Conditions(
        date=time.strftime("%Y-%m-%d"),
        commit=commit(),
        machine=machine(),
        versions=versions(),
        load=round(os.getloadavg()[0], 1),
    )


def commit() -> str:
    """The checkout's commit, short; with `+` where what is measured, or measures, differs from
    it: pages and other tests do not count."""
    short = _output("git", "rev-parse", "--short=12", "HEAD")
    changed = _output("git", "status", "--porcelain", "--untracked-files=no", "--", *MEASURED)
    return (short or "unknown") + ("+" if changed else "")


def machine() -> str:
    """Cores, processor, memory, system: "2 cores, Intel Xeon, 24 GiB, Linux 6.1"."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{len(os.sched_getaffinity(0))} cores, {_processor()}, {memory:.0f} GiB, "
        f"{platform.system()} {platform.release().split('-')[0]}"
    )


def versions() -> str:
    """Of what both sides run on; what is not installed is left out."""
    found = [f"Python {platform.python_version()}", f"Apache Kafka {KAFKA_VERSION}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    if shutil.which("java"):
        done = subprocess.run(["java", "-version"], capture_output=True, text=True)
        named = re.search(r'version "([\w.]+)', done.stderr)
        found += [f"Java {named[1]}"] if named else []
    return ", ".join(found)


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    named = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return named[1].strip() if named else platform.machine()


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""
