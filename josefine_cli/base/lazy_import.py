"""Imports without garbage collection: modules and classes are never freed anyway.

Python's collector visits all of them repeatedly while thousands are created: a fifth of a short
command's time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Disable garbage collection inside the block, and restore its state afterwards."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
