"""Going through very many things a part at a time, so that no tick takes long.

A broker looks at each of its partitions now and then; of 20,000 one look takes 5 to 40 ms,
in which nobody is answered. `steps` cuts a long walk where others may run; `Rounds` looks at a
bounded number per call, all of them while they are few.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Generic, TypeVar

PER_STEP = 100
"""Partitions between two places where others may run: less than a millisecond."""

PER_ROUND = 2_000
"""Looked at per call: half a millisecond. Of 20,000 each is seen at every tenth call."""

K = TypeVar("K")
V = TypeVar("V")


def steps(things: Mapping[K, V]) -> Iterator[tuple[K, V] | None]:
    """Each thing that is there at the start and still is when its turn comes; None where others may
    run, and change what is there."""
    for at, key in enumerate(list(things), 1):
        value = things.get(key)
        if value is not None:
            yield key, value
        if at % PER_STEP == 0:
            yield None


class Rounds(Generic[K]):
    """Who comes next. Mutable."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: list[K] = []

    def next(self, things: Collection[K]) -> list[K]:
        """At most PER_ROUND of them; some may be gone since the round began."""
        if not self._left:
            self._left = list(things)
        part, self._left = self._left[:PER_ROUND], self._left[PER_ROUND:]
        return part
