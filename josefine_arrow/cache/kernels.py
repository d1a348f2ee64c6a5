"""Compiled loops: imported with numba's cache in our cache folder, by the digest of all sources."""

import hashlib
import importlib
from functools import cache
from pathlib import Path
from typing import Any

from josefine_arrow.cache.directory import cache_dir, mark_used


def import_kernels(name: str) -> Any:
    """Import the module of compiled loops `name` with their cache in our cache folder, wherever we
    are installed."""
    import numba

    config: Any = numba.config
    before = config.CACHE_DIR
    folder = cache_dir(f"numba/{_sources_digest()}")
    mark_used(folder)
    config.CACHE_DIR = str(folder)
    try:
        return importlib.import_module(name)
    finally:
        config.CACHE_DIR = before


@cache
def _sources_digest() -> str:
    """Of all modules with loops: numba looks whether the one that it compiled has changed, and not
    at those whose loops it calls."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        if file.stem.endswith("kernels") or file.stem in ("memory_access", "bytes"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
