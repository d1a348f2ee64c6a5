"""The data directory as a whole: one broker at a time, and where that broker can be reached.

The lock is an flock on `.lock`: it dies with its process, so kill -9 leaves nothing to clean up.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path

ADDRESSES_FILE = "broker.addresses.json"
LOCK_FILE = ".lock"


class DataDirError(Exception):
    """The data directory cannot be used; the message is one sentence for the user."""


class DataDirLock:
    """Holds the directory for this process until `release`."""

    def __init__(self, directory: Path) -> None:
        """Create the directory if missing and take its lock. Raises DataDirError."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DataDirError(
                f"data directory {directory} cannot be used: {error.strerror}"
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._fd, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise DataDirError(
                f"data directory {directory} is in use by another broker (process {holder})"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        os.close(self._fd)


def write_addresses(directory: Path, addresses: Mapping[str, object]) -> None:
    """Tell scripts where the broker listens; replaced atomically so that a reader sees it whole."""
    temporary = directory / f"{ADDRESSES_FILE}.tmp"
    temporary.write_text(json.dumps(addresses, indent=2) + "\n", encoding="utf-8")
    temporary.replace(directory / ADDRESSES_FILE)


def remove_addresses(directory: Path) -> None:
    (directory / ADDRESSES_FILE).unlink(missing_ok=True)
