"""Settings of a process that keep its memory small. To be called before Arrow is used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


class WithoutPandas:
    """A finder of modules that finds no pandas. Arrow imports it where it is installed, as with
    Spark, which costs 40 MB, and works without it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """See `importlib.abc.MetaPathFinder`. Raises ModuleNotFoundError."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not used by this process", name=name)


def use_little_memory(env: Mapping[str, str]) -> None:
    """For a writer or reader of tables: the system's pool, and no pandas."""
    sys.meta_path.insert(0, WithoutPandas())
    use_system_pool(env)


def use_system_pool(env: Mapping[str, str]) -> None:
    """Let Arrow return freed memory to the system at once: its own pools keep row groups that are
    written. The environment's choice comes first."""
    import pyarrow as pa

    if "ARROW_DEFAULT_MEMORY_POOL" not in env:
        pa.set_memory_pool(pa.system_memory_pool())
