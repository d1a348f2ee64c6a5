"""Loading code without looking for garbage: modules and classes live for ever.

Python's collector walks all of them again and again while thousands are made; a fifth of the time
that a short command takes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nothing_collected() -> Iterator[None]:
    """No garbage collection inside; afterwards it is as it was."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
