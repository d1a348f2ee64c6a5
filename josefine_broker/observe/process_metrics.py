"""Metrics of this process and its machine, read on a scrape."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from josefine_broker.config.sections import IdentitySection
from josefine_broker.host.metrics import Metrics

PROC = Path("/proc/self")


def register_process_metrics(metrics: Metrics, config: IdentitySection) -> None:
    """Memory, descriptors and CPU of the process, space of its disk."""
    began_s, code = time.time(), _version()
    metrics.read("build_info", lambda: [({"version": code}, 1.0)])
    read: dict[str, Callable[[], float]] = {
        "process_start_seconds": lambda: began_s,
        "process_cpu_seconds": _cpu_seconds,
        "process_resident_bytes": _resident_bytes,
        "process_resident_bytes_max": _resident_bytes_max,
        "process_open_fds": _open_fds,
        "process_max_fds": lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "disk_free_bytes": lambda: _space(config.data_dir)[0],
        "disk_total_bytes": lambda: _space(config.data_dir)[1],
        "disk_reserve_bytes": lambda: config.disk_free_bytes_min,
    }
    for name, source in read.items():
        metrics.one(name, source)


def _version() -> str:
    try:
        return version("josefine")
    except PackageNotFoundError:
        return "unknown"


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _resident_bytes() -> float:
    try:
        pages = int((PROC / "statm").read_text("ascii").split()[1])
    except OSError:  # not Linux: use the maximum so far
        return _resident_bytes_max()
    return pages * resource.getpagesize()


def _resident_bytes_max() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


def _open_fds() -> float:
    """Without the one used to count; 0 where the system does not provide it."""
    try:
        return len(os.listdir(PROC / "fd")) - 1
    except OSError:
        return 0


def _space(directory: Path) -> tuple[float, float]:
    """(free for this process, total), in bytes; zeros for a missing file system."""
    try:
        stat = os.statvfs(directory)
    except OSError:
        return 0, 0
    return stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize
