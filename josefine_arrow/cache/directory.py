"""Where josefine keeps what it can fetch or compute again: jars, compiled kernels, classes.

`$JOSEFINE_CACHE`, else `josefine` below `$XDG_CACHE_HOME` or `~/.cache`, else (nothing there can
be written) a folder of this user below the system's temporary folder.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

UNUSED_S = 30 * 24 * 3600
"""Behind which something that is marked when it is used is left over from another version or
installation."""


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


def mark_used(path: Path) -> None:
    """So that `forget_unused` leaves it where it is."""
    with suppress(OSError):
        os.utime(path)


def forget_unused(name: str, patterns: Sequence[str], now_s: float) -> None:
    """Remove from the folder `name` what nobody has used for long, as far as it can be. `patterns`:
    how names of ours look there, for whoever names the cache may have others' files in it; `now_s`:
    since 1970. Raises nothing."""
    with suppress(OSError):
        folder = cache_dir(name)
        for path in [path for pattern in patterns for path in folder.glob(pattern)]:
            with suppress(OSError):
                if now_s - path.stat().st_mtime > UNUSED_S:
                    _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _candidates() -> list[Path]:
    given = os.environ.get("JOSEFINE_CACHE")
    if given:
        return [Path(given).expanduser()]
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    user = os.getuid() if hasattr(os, "getuid") else 0
    return [Path(base).expanduser() / "josefine", Path(tempfile.gettempdir()) / f"josefine-{user}"]
