"""The settings of memory come before Arrow is loaded: its C++ functions choose their pool once.
Code that only the start needed does not stay in the process."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from josefine_lake.writer.little_memory import CODE_BYTES_MIN, POOL, code_in, unmap_code
from tests.support.cli import REPOSITORY

WRITTEN, SWAP = "Anonymous", "Swap"
PLAIN = {"Size": 2048, "Rss": 8, WRITTEN: 0, "Private_Hugetlb": 0, SWAP: 0, "Locked": 0}
CODE = f"""
import os, sys
import josefine_cli.archive.command, josefine_cli.sql.command, josefine_cli.tables.command
from josefine_lake.writer import failpoints
from josefine_lake.writer.little_memory import use_little_memory
assert "pyarrow" not in sys.modules
use_little_memory(os.environ)
import pyarrow
print(os.environ["{POOL}"], pyarrow.default_memory_pool().backend_name)
"""


def pools(**env: str) -> list[str]:
    """The pools of a new process by its environment and by Arrow."""
    inherited = {name: each for name, each in os.environ.items() if name != POOL}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env={**inherited, "PYTHONPATH": str(REPOSITORY), **env},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_a_writer_uses_the_systems_pool_unless_the_environment_has_another() -> None:
    assert pools() == ["system", "system"]
    assert pools(**{POOL: "mimalloc"}) == ["mimalloc", "mimalloc"]


def code_pages(library: str) -> int:
    """KiB of a library's code in this process."""
    found, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *more = line.split()
        if not first.endswith(":"):
            counts = more[0] == "r-xp" and library in line
        elif first == "Rss:" and counts:
            found += int(more[0])
    return found


def test_code_of_libraries_leaves_the_process_and_comes_back() -> None:
    numbers = pa.array(range(1000))
    assert pc.sum(numbers).as_py() == 499_500
    before = code_pages("/libarrow.so")

    unmap_code()

    assert code_pages("/libarrow.so") < before / 2
    assert pc.sum(numbers).as_py() == 499_500


def test_code_that_was_written_stays(tmp_path: Path) -> None:
    """As a linker writes relocations, and takes the right to write away again."""
    path, size = tmp_path / "code.so", 2 * CODE_BYTES_MIN
    path.write_bytes(bytes(size))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    with path.open("rb") as file:
        at = libc.mmap(
            None, ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE,
            file.fileno(), ctypes.c_long(0),
        )  # fmt: skip
    code = ctypes.c_void_p(at)
    try:
        ctypes.memmove(code, b"relocated", 9)
        executable = mmap.PROT_READ | mmap.PROT_EXEC
        assert not libc.mprotect(code, ctypes.c_size_t(size), executable), ctypes.get_errno()

        unmap_code()

        assert ctypes.string_at(at, 9) == b"relocated"
    finally:
        libc.munmap(code, ctypes.c_size_t(size))


def test_only_code_of_large_libraries_is_unmapped(tmp_path: Path) -> None:
    """Pages that were written would be lost: data, and what the linker has changed."""
    mappings = {
        "7f0000000000-7f0000200000 r-xp 00001000 fe:00 12 /lib/lib large.so": PLAIN,
        "7f0000200000-7f0000400000 r--p 00001000 fe:00 12 /lib/large.so": PLAIN,
        "7f0000400000-7f0000600000 rwxp 00001000 fe:00 12 /lib/large.so": PLAIN,
        "7f0000600000-7f0000800000 r-xp 00000000 00:00 0 ": PLAIN,
        "7f0000800000-7f0000a00000 r-xp 00000000 00:00 0          [vdso]": PLAIN,
        "7f0000a00000-7f0000a10000 r-xp 00001000 fe:00 12 /lib/small.so": PLAIN,
        "7f0000b00000-7f0000d00000 r-xp 00001000 fe:00 12 /lib/gone.so (deleted)": PLAIN,
        "7f0001000000-7f0001200000 r-xp 00001000 fe:00 12 /lib/written.so": {**PLAIN, WRITTEN: 4},
        "7f0002000000-7f0002200000 r-xp 00001000 fe:00 12 /lib/swapped.so": {**PLAIN, SWAP: 4},
        "7f0003000000-7f0003200000 r-xp 00001000 fe:00 12 /lib/unknown.so": {},
        "7f0004000000-7f0004200000 r-xp 00001000 fe:00 12 /lib/last.so": PLAIN,
    }
    lines = [
        line
        for first, counts in mappings.items()
        for line in (first, *(f"{name}:  {count} kB" for name, count in counts.items()))
    ]
    assert [*code_in(lines)] == [
        (0x7F0000000000, 0x7F0000200000), (0x7F0004000000, 0x7F0004200000),
    ]  # fmt: skip
    unmap_code(tmp_path / "not there")
