"""Delivery counts of written rows per topic: of a task, summed over tasks, and as one JSON line.

Pure except for `append_line`.
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
    """Counts of one topic: acknowledged records and batches, retries, splits and errors."""

    records: int = 0
    record_bytes: int = 0
    """Bytes of record batches as sent, compressed."""
    batches: int = 0
    retries: int = 0
    splits: int = 0
    """Batches that were too large for the topic and were sent in pieces."""
    errors: Counter[str] = field(default_factory=Counter)
    """Transient errors, by the name of their code."""

    def acknowledged(self, records: int, record_bytes: int) -> None:
        self.records += records
        self.record_bytes += record_bytes
        self.batches += 1

    def passed(self, codes: Iterable[ErrorCode]) -> None:
        """Count transient errors; each was followed by a retry."""
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
    """Counts of all topics of a task, or of a whole write."""

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
    """Append in one write, so that lines of two queries do not mix; None only creates the file.
    Raises OSError."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        if line is not None:
            os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)
