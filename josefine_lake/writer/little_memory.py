"""Settings of a process that keep its memory small. To be called before Arrow is used, except for
`unmap_code`, which comes after libraries were loaded."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

POOL = "ARROW_DEFAULT_MEMORY_POOL"
CODE_BYTES_MIN = 1 << 20
"""Of a library whose code is unmapped: smaller ones are not worth a call."""
_WRITTEN = "Anonymous:"
_OWN = {_WRITTEN, "Swap:", "Private_Hugetlb:"}
"""Counts of pages that are this process's own."""
_PARTS = 5
"""Of a mapping's first line after its addresses, with a path."""
_DELETED = " (deleted)"
_END = "0-0 ---p 0 0 0"
"""A mapping after the last one."""


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


def unmap_code(maps: Path = Path("/proc/self/smaps")) -> None:
    """Take pages of libraries' code out of this process; those that are used come back one by one,
    from the system's cache. Loading LLVM, Arrow and delta-rs touches far more of them than work
    does. Code that was written in this process stays: it is in no file."""
    try:
        lines = maps.read_text().splitlines()
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return  # not Linux
    for start, end in code_in(lines):
        # A failure leaves the pages where they are.
        advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


def code_in(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """The addresses of code of large libraries, of the lines of /proc/PID/smaps."""
    found, own = None, dict[str, str]()
    for line in (*lines, _END):
        name, *more = line.split(maxsplit=5)
        if name in _OWN:
            own[name] = more[0]
        elif not name.endswith(":"):
            # A linker or a debugger has written pages of its own where the counts are not 0.
            if found is not None and _WRITTEN in own and {*own.values()} == {"0"}:
                yield found
            found, own = _large_code(name, more), {}


def _large_code(addresses: str, more: list[str]) -> tuple[int, int] | None:
    permissions, *_, path = more if len(more) == _PARTS else (*more, "")
    # A file that was replaced may be out of reach, on a network.
    if permissions != "r-xp" or not path.startswith("/") or path.endswith(_DELETED):
        return None
    start, end = (int(each, 16) for each in addresses.split("-"))
    return (start, end) if end - start >= CODE_BYTES_MIN else None
