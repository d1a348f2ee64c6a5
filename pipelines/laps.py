"""How long the parts of something took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Laps:
    """Mutable: the seconds of each part, in the order of their ends."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.seconds: dict[str, float] = {}
        self._now_s = now_s

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """What is done within belongs to this part, unless it fails."""
        begun = self._now_s()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + self._now_s() - begun
