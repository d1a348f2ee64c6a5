"""What a stream passed over is a row of a Delta table: each once, whatever is repeated."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from deltalake import DeltaTable

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.errors import LossTableError
from josefine_spark.base.topic_offsets import TopicOffsets
from josefine_spark.read.loss_table import LostRange, lost_ranges, record

ONE = LostRange("a", "x", 0, 10, 25)
OTHER = LostRange("a", "x", 1, 3, None)


def rows(path: Path) -> list[tuple[object, ...]]:
    table = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted(
        (row["topic"], row["partition"], row["start_offset"], row["end_offset"]) for row in table
    )


def test_each_lost_range_is_one_row_however_often_it_is_told(tmp_path: Path) -> None:
    """Checklist row 90. A crash behind the commit, a restart, a replay: the same is told again."""
    path = tmp_path / "losses"

    assert record(str(path), [ONE], 1_000) == 1
    assert record(str(path), [ONE], 2_000) == 0
    assert record(str(path), [ONE, OTHER], 3_000) == 1
    assert record(str(path), [OTHER, ONE], 4_000) == 0

    assert rows(path) == [("a", 0, 10, 25), ("a", 1, 3, None)]
    assert DeltaTable(str(path)).version() == 2  # made, and two commits


def test_tasks_that_tell_their_losses_at_once_tell_each_once(tmp_path: Path) -> None:
    """Also those that make the table, and two attempts of one task."""
    told = [ONE, ONE, OTHER, OTHER]
    together = Barrier(len(told))

    def tell(one: LostRange) -> int:
        together.wait()
        return record(str(tmp_path / "losses"), [one], 0)

    with ThreadPoolExecutor(len(told)) as threads:
        assert sum(threads.map(tell, told)) == 2

    assert rows(tmp_path / "losses") == [("a", 0, 10, 25), ("a", 1, 3, None)]


def test_the_same_offsets_of_a_topic_created_again_are_another_loss(tmp_path: Path) -> None:
    path = tmp_path / "losses"

    assert record(str(path), [ONE, ONE._replace(topic_id="y")], 0) == 2
    assert len(rows(path)) == 2


def test_ranges_are_taken_from_the_offset_that_the_batch_reached() -> None:
    tp = TopicPartition("a", 0)
    offsets = TopicOffsets(ends={tp: 30}, topic_ids={"a": "x"}, lost={tp: (10, 25)})

    assert lost_ranges(offsets) == [ONE]
    assert lost_ranges(TopicOffsets(ends={tp: 30}, topic_ids={"a": "x"})) == []


def test_a_table_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    with pytest.raises(LossTableError, match=r"lossTable .*file.* cannot be written"):
        record(str(tmp_path / "file" / "losses"), [ONE], 0)
