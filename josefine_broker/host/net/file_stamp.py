"""The identity of a file's content, to detect changes."""

from __future__ import annotations

import os
from pathlib import Path

Look = tuple[int, int, int] | None
"""Time of the last change (ns), size (bytes), inode; None: missing or not readable."""


def look_at(path: Path) -> Look:
    """The stamp of a file: changed content has another stamp."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)
