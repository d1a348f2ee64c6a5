"""Excludes long-lived objects of the broker from Python's cyclic garbage collector.

A full collection visits every tracked object, on whichever thread allocates: with 20,000 partitions
it takes 0.2 s and more each time their number has grown by a quarter (measured), and no request is
answered meanwhile. Partitions hold no cycles and are freed by reference counting, so they are moved
out of the collector's reach. Other objects alive at that moment are moved too: that is little, and
happens rarely. So is everything that is alive when the broker starts to serve: code, tables and
100,000 objects of modules, which every full collection would visit.
"""

import gc

PARTITIONS_PER_FREEZE = 250
"""About 5,000 objects: a collection in between takes a few milliseconds."""


class Freezer:
    """Counts opened partitions, on any thread. One per process."""

    def __init__(self) -> None:
        self._opened = 0

    def opened(self) -> None:
        """Count one more partition."""
        self._opened += 1
        if self._opened % PARTITIONS_PER_FREEZE == 0:
            gc.freeze()


def freeze_started() -> None:
    """Move what is alive out of the collector's reach. To be called once, by the process's own
    code: in a process with other work, garbage of that work would be kept, too."""
    gc.freeze()
