"""What became of written rows, counted per topic: in a task, summed over tasks, as one JSON line.

Pure but for `append_line`.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from josefine_broker.base.errors import ErrorCode


@dataclass(slots=True)
class TopicCounts:
    """Of one topic: what was acknowledged, and what went wrong on the way to that."""

    records: int = 0
    record_bytes: int = 0
    """Of record batches as they were sent, compressed."""
    batches: int = 0
    retries: int = 0
    splits: int = 0
    """Batches that were too large for the topic and were sent in pieces."""
    errors: Counter[str] = field(default_factory=Counter)
    """Errors that passed, by the name of their code."""

    def acknowledged(self, records: int, record_bytes: int) -> None:
        self.records += records
        self.record_bytes += record_bytes
        self.batches += 1

    def passed(self, codes: Iterable[ErrorCode]) -> None:
        """Each of these was followed by another try."""
        for code in codes:
            self.retries += 1
            self.errors[code.name] += 1

    def add(self, other: "TopicCounts") -> None:
        self.records += other.records
        self.record_bytes += other.record_bytes
        self.batches += other.batches
        self.retries += other.retries
        self.splits += other.splits
        self.errors.update(other.errors)


@dataclass(slots=True)
class DeliveryCounts:
    """Of all topics of a task, or of a whole write."""

    topics: dict[str, TopicCounts] = field(default_factory=dict)

    def of(self, topic: str) -> TopicCounts:
        return self.topics.setdefault(topic, TopicCounts())

    def add(self, other: "DeliveryCounts") -> None:
        for topic, counts in other.topics.items():
            self.of(topic).add(counts)

    def line(self, batch_id: int | None) -> str:
        """One line of JSON. `batch_id` None: a batch write, which has no number."""
        topics = {
            topic: {
                "records": counts.records,
                "bytes": counts.record_bytes,
                "batches": counts.batches,
                "retries": counts.retries,
                "splits": counts.splits,
                "errors": dict(sorted(counts.errors.items())),
            }
            for topic, counts in sorted(self.topics.items())
        }
        return json.dumps({"event": "delivered", "batch": batch_id, "topics": topics})


def append_line(path: Path, line: str | None) -> None:
    """In one write, so that lines of two queries do not mix; None only makes the file. Raises
    OSError."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        if line is not None:
            os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)
