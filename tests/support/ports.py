"""Ports of this machine for tests, each claimed by one test process at a time.

A port that was free a moment ago can be taken before its broker listens, or while its broker is
down: by another test process, or by any connection that leaves this machine, since the kernel takes
its side's port from the same range. So ports come from below that range, and a process holds the
byte of a file that has the port's number locked while it lives (the kernel lets go for a dead one).
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

FIRST_PORT = 10_000
LOCAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOCAL_RANGE_FIRST = 32_768
"""Linux's default, for where the file is missing."""


def free_ports(count: int) -> list[int]:
    """So many different ports that are free and that no other test process will get."""
    end = _first_outgoing()
    claimed: list[int] = []
    # Not the tests' own generator: pytest-randomly gives every process the same one.
    for port in random.SystemRandom().sample(range(FIRST_PORT, end), end - FIRST_PORT):
        if len(claimed) == count:
            return claimed
        if port not in _ours() and _is_free(port) and _claim(port):
            claimed.append(port)
    raise AssertionError(f"no {count} free ports from {FIRST_PORT} to {end}")


def free_port_rows(count: int, *steps: int) -> int:
    """The first of `count` such ports in a row; so many are `steps` further each, too."""
    end = _first_outgoing() - count - max(steps, default=0)
    for first in random.SystemRandom().sample(range(FIRST_PORT, end), end - FIRST_PORT):
        row = [first + step + at for step in (0, *steps) for at in range(count)]
        if all(port not in _ours() and _is_free(port) for port in row) and all(map(_claim, row)):
            return first
    raise AssertionError(f"no rows of {count} free ports from {FIRST_PORT} to {end}")


def _claim(port: int) -> bool:
    """Lock the port's byte, for the life of this process."""
    try:
        fcntl.lockf(_claims(os.getpid()), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _ours().add(port)
    return True


@cache
def _ours() -> set[int]:
    """A process gets its own locks again and again: so they are counted here too."""
    return set()


@cache
def _claims(pid: int) -> int:
    """The file of claims. Never closed: closing any descriptor of it lets go of all locks."""
    path = Path(tempfile.gettempdir()) / f"josefine-test-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@cache
def _first_outgoing() -> int:
    if not LOCAL_RANGE.exists():
        return LOCAL_RANGE_FIRST
    return int(LOCAL_RANGE.read_text().split()[0])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
