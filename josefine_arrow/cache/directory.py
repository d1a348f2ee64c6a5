"""The cache folder for files that can be downloaded or computed again: jars, compiled kernels,
class archives.

It is `$JOSEFINE_CACHE`, else `josefine` in `$XDG_CACHE_HOME` or `~/.cache`, else (if that is not
writable) a folder of this user in the system's temporary folder.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

UNUSED_S = 30 * 24 * 3600
"""Age from which an unused file counts as a leftover of another version or installation; files are
marked whenever they are used."""


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
    raise OSError("no writable cache folder: set JOSEFINE_CACHE to a writable one")


def mark_used(path: Path) -> None:
    """Set the modification time, so that `forget_unused` keeps the file."""
    with suppress(OSError):
        os.utime(path)


def forget_unused(name: str, patterns: Sequence[str], now_s: float) -> None:
    """Remove files that were not used for long from the cache folder `name`. Only names that match
    `patterns` are removed, because a user-defined cache folder may contain other files. `now_s` is
    since 1970. Never raises: a file that cannot be removed is kept."""
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
