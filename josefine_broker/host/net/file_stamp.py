"""Whether a file that is read again when it changes is another one than before."""

from __future__ import annotations

import os
from pathlib import Path

Look = tuple[int, int, int] | None
"""Time of the last change (ns), size (bytes), inode; None: there is none, or nobody may look."""


def look_at(path: Path) -> Look:
    """Compared with an earlier one: other contents have another look."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)
