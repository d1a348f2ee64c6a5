"""Settings of a process that keep its memory small. To be called before Arrow is used."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from typing import Any

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
"""Of `mallopt(3)`, see glibc's malloc.h."""
MAPPED_BYTES = 1 << 20


class WithoutPandas:
    """A finder of modules that finds no pandas. Arrow imports it where it is installed, as with
    Spark, which costs 40 MB, and works without it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """See `importlib.abc.MetaPathFinder`. Raises ModuleNotFoundError."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not used by this process", name=name)


def use_little_memory(env: Mapping[str, str]) -> None:
    """For a writer or reader of tables: the system's pool, which returns what is freed, and no
    pandas."""
    sys.meta_path.insert(0, WithoutPandas())
    use_system_pool(env)
    _return_large_blocks(env)


def use_system_pool(env: Mapping[str, str]) -> None:
    """Let Arrow return freed memory to the system at once: its own pools keep row groups that are
    written. The environment's choice comes first."""
    import pyarrow as pa

    if "ARROW_DEFAULT_MEMORY_POOL" not in env:
        pa.set_memory_pool(pa.system_memory_pool())


def _return_large_blocks(env: Mapping[str, str]) -> None:
    """Where the system's allocator is glibc's: one arena for all threads, and large blocks as
    mappings of their own. By default each thread keeps an arena that grows to its peak, and glibc
    raises the size from which a block is a mapping up to 32 MB."""
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in env):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_ARENA_MAX, 1)
        mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
