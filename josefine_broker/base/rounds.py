"""Iteration over very many items in parts, so that no tick takes long.

A broker checks each of its partitions periodically; a check of 20,000 takes 5 to 40 ms, in which no
request is answered. `steps` splits a long iteration at places where other work may run; `Rounds`
checks a bounded number per call, all of them while they are few.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Generic, TypeVar

PER_STEP = 100
"""Partitions between two places where other work may run: less than a millisecond."""

PER_ROUND = 2_000
"""Items per call: half a millisecond. Of 20,000 each is seen at every tenth call."""

K = TypeVar("K")
V = TypeVar("V")


def steps(things: Mapping[K, V]) -> Iterator[tuple[K, V] | None]:
    """Each item that exists at the start and still does at its turn; None where other work may run,
    and change the items."""
    for at, key in enumerate(list(things), 1):
        value = things.get(key)
        if value is not None:
            yield key, value
        if at % PER_STEP == 0:
            yield None


class Rounds(Generic[K]):
    """The order of items. Mutable."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: list[K] = []

    def next(self, things: Collection[K]) -> list[K]:
        """At most PER_ROUND of them; some may be gone since the round started."""
        if not self._left:
            self._left = list(things)
            self._left.reverse()
        # From the end: the rest of 10,000 is not copied at each call.
        part = self._left[: -PER_ROUND - 1 : -1]
        del self._left[-PER_ROUND:]
        return part
