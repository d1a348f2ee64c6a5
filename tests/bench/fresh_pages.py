"""Memory that the system has in hand before a write is measured.

A virtual machine gives pages that it does not use back to its host (free page reporting), and the
first use of such a page costs 2 s of CPU per GB, five times as much as the write itself. Whether a
write meets them depends on what ran before it, so it is no property of either broker.
"""

from __future__ import annotations

import mmap

MAX_BYTES = 3 << 30
"""At once: more than that is not given back before the write is over."""


def take_and_free(size_bytes: int) -> None:
    """Make the kernel hold so many free pages: they are taken, written to, and freed."""
    size_bytes = min(int(size_bytes), MAX_BYTES)
    if size_bytes > 0 and hasattr(mmap, "MAP_POPULATE"):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        mmap.mmap(-1, size_bytes, flags=flags).close()
