"""Where josefine keeps what it can fetch or compute again: jars, compiled kernels.

`$JOSEFINE_CACHE`, else `josefine` below `$XDG_CACHE_HOME` or `~/.cache`, else (nothing there can
be written) a folder of this user below the system's temporary folder.
"""

import os
import tempfile
from pathlib import Path


def cache_dir(name: str) -> Path:
    """Return the folder `name` of the cache, created and writable."""
    for root in _candidates():
        folder = root / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise OSError("no folder to cache in: set JOSEFINE_CACHE to one that can be written")


def _candidates() -> list[Path]:
    given = os.environ.get("JOSEFINE_CACHE")
    if given:
        return [Path(given).expanduser()]
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    user = os.getuid() if hasattr(os, "getuid") else 0
    return [Path(base).expanduser() / "josefine", Path(tempfile.gettempdir()) / f"josefine-{user}"]
