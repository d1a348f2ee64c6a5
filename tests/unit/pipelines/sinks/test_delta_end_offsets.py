"""How far a table has come, read from its log's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.options.options import MissingStrategy
from josefine_spark.read.offsets import Bounds, resolve_start
from josefine_spark.read.source_options import source_options
from pipelines.base.errors import PipelineError
from pipelines.sinks.delta_end_offsets import starting_offsets, table_end


def commit(folder: Path, version: int, end: dict[str, Any] | None, app: str = "p:s") -> None:
    """One commit file; without `end` it is somebody else's."""
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    info: dict[str, Any] = {"operation": "WRITE", "operationMetrics": {}}
    lines = [{"commitInfo": info}, {"add": {"path": "x"}}]
    if end is not None:
        metadata = {"josefine": 1, "end": end, "topic_ids": {"t": "id-of-t"}}
        info["userMetadata"] = json.dumps(metadata)
        lines.append({"txn": {"appId": f"josefine:{app}", "version": version + 1}})
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    (log / f"{version:020d}.json").write_text(text)


def test_newest_commit_of_a_pipeline_says_it(tmp_path: Path) -> None:
    commit(tmp_path, 0, {"t": {"0": 5}})
    commit(tmp_path, 1, {"t": {"0": 9, "1": 4}})
    commit(tmp_path, 2, None)

    end = table_end(tmp_path)

    assert end.ends == {TopicPartition("t", 0): 9, TopicPartition("t", 1): 4}
    assert end.topic_ids == {"t": "id-of-t"}


def test_two_writers_are_named(tmp_path: Path) -> None:
    commit(tmp_path, 0, {"t": {"0": 5}}, "one:s")
    commit(tmp_path, 1, {"t": {"0": 7}}, "two:s")

    with pytest.raises(PipelineError, match="written by josefine:one:s, josefine:two:s"):
        table_end(tmp_path)


def test_what_says_nothing_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="is no Delta table on this machine"):
        table_end(tmp_path)
    commit(tmp_path, 0, None)
    with pytest.raises(PipelineError, match="no commit in sight of the table"):
        table_end(tmp_path)


def test_a_stream_can_begin_where_the_table_ends(tmp_path: Path) -> None:
    commit(tmp_path, 0, {"t": {"0": 9}})
    given = {
        "bootstrapServers": "b:1",
        "subscribe": "t",
        "startingOffsets": starting_offsets(tmp_path),
    }

    starting = source_options(given, streaming=True).starting
    bounds = {TopicPartition("t", 0): Bounds(2, 20), TopicPartition("t", 1): Bounds(3, 4)}

    assert starting.topic_ids == {"t": "id-of-t"}
    start = resolve_start(starting, bounds, {}, MissingStrategy.ERROR, fail_on_data_loss=True)
    assert start == {TopicPartition("t", 0): 9, TopicPartition("t", 1): 3}
