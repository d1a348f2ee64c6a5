"""Excludes long-lived objects of the broker from Python's cyclic garbage collector.

A full collection visits every tracked object, on whichever thread allocates: with 20,000 partitions
it takes 0.2 s and more each time their number has grown by a quarter (measured), and no request is
answered meanwhile. Partitions hold no cycles and are freed by reference counting, so they are moved
out of the collector's reach. Other objects alive at that moment are moved too: that is little, and
happens rarely. So is everything that is alive when the broker starts to serve: code, tables and
100,000 objects of modules, which every full collection would visit.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

PARTITIONS_PER_FREEZE = 250
"""About 5,000 objects: a collection in between takes a few milliseconds."""


STARTING_OBJECTS = 50_000
"""New objects per collection during a start, instead of Python's 700. With 10,000 partitions the
collector took 0.9 s of 3.5 s of CPU until then. A collection still comes, because a broker may wait
for its cluster for hours."""

SERVING_OBJECTS = 10_000
"""The same while it serves. A request that waits is a dozen objects, and is freed without the
collector: with a thousand of them, by Python's 700, it took a quarter of an idle broker's time."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Collect rarely inside the block, whose objects live as long as the broker; afterwards they
    are out of the collector's reach, and it looks at each `SERVING_OBJECTS` new ones."""
    later = gc.get_threshold()[1:]
    gc.set_threshold(STARTING_OBJECTS, *later)
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(SERVING_OBJECTS, *later)


class Freezer:
    """Counts opened partitions, on any thread. One per process."""

    def __init__(self) -> None:
        self._opened = 0

    def opened(self) -> None:
        """Count one more partition."""
        self._opened += 1
        if self._opened % PARTITIONS_PER_FREEZE == 0:
            # Garbage that is not found yet would be out of reach, too, and stay for good. A start
            # leaves little, and a collection then visits all modules: 70 ms.
            if gc.get_threshold()[0] != STARTING_OBJECTS:
                gc.collect()
            gc.freeze()
