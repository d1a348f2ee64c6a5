"""The import of numba kernels, with their compiled code in a cache folder per digest of sources."""

import hashlib
import importlib
from functools import cache
from pathlib import Path
from typing import Any

from josefine_arrow.cache.directory import cache_dir, mark_used


def import_kernels(name: str) -> Any:
    """Import the kernel module `name`; its compiled code is cached in our cache folder, wherever
    the package is installed."""
    import numba

    config: Any = numba.config
    before = config.CACHE_DIR
    folder = cache_dir(f"numba/{_sources_digest()}")
    mark_used(folder)
    # numba reads it when a function is decorated, that is during this import; other users of numba
    # in the process keep theirs.
    config.CACHE_DIR = str(folder)
    try:
        return importlib.import_module(name)
    finally:
        config.CACHE_DIR = before


@cache
def _sources_digest() -> str:
    """Digest of all kernel modules: numba notices a change of the compiled module itself, but not
    of modules whose kernels it calls."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        # What kernels call or inline, and nothing else: an edit of a decoder must not compile them
        # again.
        if file.stem.endswith("kernels") or file.stem in ("memory_access", "bytes"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
