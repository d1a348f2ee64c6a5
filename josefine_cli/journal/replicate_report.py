"""The output of a replicator: sentences on stderr for people, an object per commit for scripts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from josefine_cli.base.output import note, plural, print_json

if TYPE_CHECKING:
    from josefine_journal.replicator import Replicator, Round
    from pipelines.journal.spark_rounds import SparkReplicator

TELL_MS = 10_000
"""Interval of progress notes; an idle replicator writes none."""


def tell_restored(topic: str, taken_back: Mapping[int, tuple[int, int]]) -> None:
    """Report partitions whose store was restored to an older version."""
    for partition, (was, end) in sorted(taken_back.items()):
        note(
            f"partition {topic}-{partition}: the store was restored from offset {was} to {end}; "
            "later records are read from the topic again"
        )


class Telling:
    """Prints a replicator's progress: sentences for people, an object per commit for scripts."""

    def __init__(self, topic: str, replicator: Replicator | SparkReplicator, as_json: bool) -> None:
        self._topic = topic
        self._replicator = replicator
        self._as_json = as_json
        self._rows = self._records = 0
        self._told: set[int] = set()
        self._next_s = 0.0
        self._said = ""
        self._last: Round | None = None

    def round(self, found: Round) -> None:
        now_s = asyncio.get_running_loop().time()
        self._rows += found.rows
        self._records += found.records if found.committed else 0
        self._last = found
        for lost in found.lost:
            note(f"{lost}; skipped")
        for letter in found.dead if found.committed else ():
            note(f"dead letter: {letter.error}")
        for partition, error in self._replicator.stalled.items():
            if partition not in self._told:
                self._told.add(partition)
                note(f"partition {self._topic}-{partition} stopped at a record: {error}")
        if found.committed and self._as_json:
            ends = {str(p): end for p, end in sorted(found.replicated.items())}
            print_json(
                {"topic": self._topic, "rows": found.rows, "replicated": ends, "lag": found.lag}
            )
            sys.stdout.flush()
        if found.committed and now_s >= self._next_s:
            self._next_s = now_s + TELL_MS / 1_000
            self.say()

    def trouble(self, error: Exception, wait_ms: int) -> None:
        note(f"{error}; again in {wait_ms / 1_000:.0f} s")

    def say(self) -> None:
        if self._last is None:
            return
        lag = "nothing" if not self._last.lag else plural(self._last.lag, "record")
        done = f"{plural(self._records, 'record')}, {plural(self._rows, 'row')} stored"
        sentence = f"{self._topic}: {done}, {lag} to be replicated"
        if sentence != self._said:
            self._said = sentence
            note(sentence)
