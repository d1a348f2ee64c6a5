"""How many dead letters are too many: over the last batches of a run, by source. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """More than this part of the records of the last `window` batches may not be dead letters."""

    ratio: float
    window: int


class Recent:
    """The last batches of one source in this run. Mutable: what `batch` was told."""

    def __init__(self, threshold: Threshold) -> None:
        self._threshold = threshold
        self._batches: deque[tuple[int, int]] = deque(maxlen=threshold.window)
        self._lock = Lock()  # the sinks of a source have a thread each

    def batch(self, records: int, dead_letters: int) -> str:
        """Count a batch that is in the tables; why the run must stop behind it, "" if it need not.

        A run's first batches are judged too, by as many as there are.
        """
        with self._lock:
            self._batches.append((records, dead_letters))
            batches = list(self._batches)
        read = sum(each[0] for each in batches)
        dead = sum(each[1] for each in batches)
        if dead <= self._threshold.ratio * read:
            return ""
        many = len(batches)
        of = "the last batch" if many == 1 else f"the last {many} batches"
        return f"{dead:,} of {read:,} records of {of} are dead letters, more than " + (
            f"{self._threshold.ratio:.2%} (threshold)"
        )
