"""Settings of a process that keep its memory small. To be called before Arrow is used."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any

POOL = "ARROW_DEFAULT_MEMORY_POOL"


class WithoutPandas:
    """A finder of modules that finds no pandas. Arrow imports it where it is installed, as with
    Spark, which costs 40 MB, and works without it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """See `importlib.abc.MetaPathFinder`. Raises ModuleNotFoundError."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not used by this process", name=name)


def use_no_pandas() -> None:
    """For a reader of archives, whose windows come and go: Arrow's own pool keeps their memory,
    and the system's would map each page again, which is a third of a cold read."""
    sys.meta_path.insert(0, WithoutPandas())


def use_little_memory(env: MutableMapping[str, str]) -> None:
    """For a writer of tables: the system's pool, and no pandas."""
    use_no_pandas()
    use_system_pool(env)


def use_system_pool(env: MutableMapping[str, str]) -> None:
    """Let Arrow return freed memory to the system at once: its own pools keep row groups that are
    written. The environment's choice comes first. `env`: this process's, which Arrow's functions
    in C++ look at; the pool that is set in Python is not theirs."""
    if POOL not in env:
        env[POOL] = "system"
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())
