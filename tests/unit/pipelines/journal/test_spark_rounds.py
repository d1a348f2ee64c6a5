"""What a round of the replicator in Spark decides where Spark has no part in it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from josefine_broker.records.builder import Record
from josefine_journal.delta_store import DeltaStore
from josefine_journal.errors import RecordsLost, StoreError
from josefine_journal.replicator import Round
from josefine_journal.taking import Taken
from pipelines.journal.spark_replicator import _find_gaps
from pipelines.journal.spark_rounds import SparkReplicator
from tests.support.journal_world import MemoryLog


def replicator(log: MemoryLog, root: Path, **options: Any) -> SparkReplicator:
    """One that finds nothing for Spark to do."""
    store = DeltaStore(root, "t", None)
    return SparkReplicator(
        None,  # type: ignore[arg-type]
        log,
        store,
        root,
        bootstrap="localhost:1",
        partitions=(0, 1),
        **options,
    )


def one_round(log: MemoryLog, root: Path, **options: Any) -> Round:
    return asyncio.run(replicator(log, root, **options).round(0))


def written(count: int) -> MemoryLog:
    log = MemoryLog(2)

    async def write() -> None:
        for _ in range(count):
            await log.write(0, Record(b"id", b"", (), 0))

    asyncio.run(write())
    return log


def test_what_left_the_topic_is_an_error_or_told_and_passed_over(tmp_path: Path) -> None:
    """Checklist row 83."""
    log = written(3)
    log.retain(0, 3)
    with pytest.raises(RecordsLost, match="partition t-0: the records from 0 to 2 left the topic"):
        one_round(log, tmp_path)
    assert DeltaStore(tmp_path, "t", None).snapshot((0,)).replicated(0) is None

    found = one_round(log, tmp_path, passes_lost=True)

    assert [(each.begin, each.end) for each in found.lost] == [(0, 3)]
    assert (found.replicated, found.committed, found.lag) == ({0: 3, 1: 0}, (0,), 0)
    assert one_round(log, tmp_path) == Round(replicated={0: 3, 1: 0}, log_ends={0: 3, 1: 0})


def test_offsets_without_a_record_are_found_before_within_and_between_the_parts_of_a_batch() -> (
    None
):
    def part(*offsets: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"partition": [0] * len(offsets), "offset": offsets})

    for first, parts, expected in (
        (3, [part(3, 4), part(5)], {}),
        (3, [part(4)], {0: 3}),
        (3, [part(3, 5, 8)], {0: 4}),
        (3, [part(3), part(6)], {0: 4}),
        (0, [part(2)], {0: 0}),
    ):
        gaps: dict[int, int] = {}
        taken: dict[int, Taken] = {}
        for each in parts:
            _find_gaps(each, taken, {0: first}, gaps)
            end = each["offset"].to_pylist()[-1] + 1
            taken[0] = Taken(topic="t", partition=0, begin=first, end=end)
        assert gaps == expected


def test_log_that_ends_before_its_store_is_another_one(tmp_path: Path) -> None:
    log = written(3)
    log.retain(0, 3)
    one_round(log, tmp_path, passes_lost=True)
    with pytest.raises(StoreError, match="partition t-0 ends at 2, its store at 3"):
        one_round(written(2), tmp_path)
