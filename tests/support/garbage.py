"""Objects that only the collector would free: there are none where it may come late."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """No cycle is freed inside the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def alive(kind: type) -> int:
    """How many objects of a class there are, with those of its subclasses."""
    # By type: `isinstance` asks proxies of other libraries for their class.
    return sum(issubclass(type(each), kind) for each in gc.get_objects())
