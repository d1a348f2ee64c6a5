"""Sync of the commits of a table in a folder of this machine, which delta-rs leaves to the system.

A group's offset lets brokers delete segments. After a power failure the commit that it stands for
would be gone, or its log entry empty, if it had not been synced before. An object store needs
nothing: what it has accepted is durable.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from pipelines.sinks.delta_log import lines_of

RECENT = 10
"""Entries that an earlier writer may have left without a sync when it was killed."""


def sync_commits(folder: Path, versions: Iterable[int]) -> None:
    """Sync the log entries of these versions, the files that they add and the folders of both.
    Raises OSError, except for what is not there any more."""
    log = folder / "_delta_log"
    for version in versions:
        with suppress(FileNotFoundError):
            entry = log / f"{version:020d}.json"
            for name in _added(entry.read_text(encoding="utf-8")):
                with suppress(FileNotFoundError):
                    _sync(folder / name)
            _sync(entry)
    # The folder's own name as well: the first commit may have made it.
    for each in (log, folder, folder.parent):
        with suppress(FileNotFoundError):
            _sync(each)


def _added(text: str) -> Iterator[str]:
    for line in lines_of(text):
        if line.startswith('{"add"'):
            yield unquote(json.loads(line)["add"]["path"])


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
