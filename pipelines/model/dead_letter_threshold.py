"""Dead-letter threshold: the maximum ratio over the last batches of a run, per source. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The maximum ratio of dead letters among the records of the last `window` batches."""

    ratio: float
    window: int


class Recent:
    """The last batches of one source in this run. Mutable: their counts."""

    def __init__(self, threshold: Threshold) -> None:
        self._threshold = threshold
        self._batches: deque[tuple[int, int]] = deque(maxlen=threshold.window)
        self._lock = Lock()  # each sink of a source has its own thread

    def batch(self, records: int, dead_letters: int) -> str:
        """Count a committed batch; returns why the run must stop after it, "" if it need not.

        The first batches of a run are checked too, with a shorter window.
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
