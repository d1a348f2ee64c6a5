"""Python's collector of cycles, kept from what lives as long as the broker.

A full collection looks at every object there is, on whichever thread allocates: with 20,000
partitions 0.2 s and more each time their number has grown by a quarter (measured), in which nobody
is answered. Partitions hold no cycles, they go when they are let go of; so they are moved where no
collection looks. What else is alive just then goes with them: that is little, and once per so many.
"""

import gc

PARTITIONS_PER_FREEZE = 250
"""About 5,000 objects: a collection in between takes a few milliseconds."""


class Freezer:
    """Counts what was opened, on any thread. One per process."""

    def __init__(self) -> None:
        self._opened = 0

    def opened(self) -> None:
        """One more partition."""
        self._opened += 1
        if self._opened % PARTITIONS_PER_FREEZE == 0:
            gc.freeze()
