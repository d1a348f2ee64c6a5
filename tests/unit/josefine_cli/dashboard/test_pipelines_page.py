"""The page of a pipeline: graph, checks, commits, lag."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from josefine_cli.dashboard.pipelines import PipelineWatcher, page_of
from pipelines.config.validate import read_pipeline
from pipelines.inspect.status import SinkStatus
from pipelines.model.pipeline import Pipeline

FILE = """\
version: 1
name: orders
trigger: {{ available_now: true }}
spark: {{ checkpoint: {folder}/ck }}
sources:
  orders:
    type: josefine
    bootstrap: 127.0.0.1:1
    topics: [orders]
transforms:
  paid: {{ inputs: [orders], sql: select * from orders }}
checks:
  small: {{ on: paid, expr: "offset < 5", action: drop }}
sinks:
  lake: {{ inputs: [paid], type: delta, mode: append, path: {folder}/lake }}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    file = tmp_path / "orders.yaml"
    file.write_text(FILE.format(folder=tmp_path))
    return read_pipeline(file, {})


def commit(folder: Path, version: int, at_ms: int, rows: int) -> None:
    meta = {"josefine": 1, "end": {"orders": {"0": version}}, "topic_ids": {"orders": "id"}}
    info = {
        "operation": "WRITE", "timestamp": at_ms, "userMetadata": json.dumps(meta),
        "operationMetrics": {"numOutputRows": str(rows)},
    }  # fmt: skip
    txn = {"appId": "josefine:orders:lake", "version": version + 1}
    log = folder / "lake" / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"commitInfo": info}) + "\n" + json.dumps({"txn": txn})
    (log / f"{version:020d}.json").write_text(text)


def test_graph_and_checks_of_the_file_are_on_its_page(pipeline: Pipeline) -> None:
    found = page_of(pipeline, [SinkStatus(sink="lake", table="lake", behind=3)])

    nodes = {node["id"]: node for node in found["graph"]["nodes"]}
    assert [nodes[id_]["column"] for id_ in nodes] == [0, 1, 2]
    assert nodes["sink_lake"]["lines"][-1] == "3 records behind"
    assert ["transform_paid", "sink_lake"] in found["graph"]["edges"]
    assert found["checks"] == [
        {"name": "small", "on": "paid", "expr": "offset < 5", "action": "drop"}
    ]


def test_time_between_commits_is_the_median_of_the_tables_log(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    for version, at_ms in enumerate((0, 5_000, 10_000, 90_000)):
        commit(tmp_path, version, at_ms, rows=7 + version)

    status = SinkStatus(sink="lake", table="lake", version=3, behind=0, lag_ms=0)
    (row,) = page_of(pipeline, [status])["sinks"]

    assert (row["batch_ms"], row["rows"], row["lag_ms"]) == (5_000, 10, 0)


def test_sink_without_a_known_end_has_no_lag_in_time(pipeline: Pipeline) -> None:
    (row,) = page_of(pipeline, [SinkStatus(sink="lake", table="lake")])["sinks"]

    assert (row["behind"], row["lag_ms"], row["batch_ms"]) == (None, None, None)


def test_viewers_share_an_answer() -> None:
    asked: list[int] = []

    def ask() -> dict[str, str]:
        asked.append(1)
        return {"pipeline": "p"}

    async def scenario() -> None:
        watcher = PipelineWatcher([ask])
        assert await watcher.pages() == await watcher.pages() == [{"pipeline": "p"}]

    asyncio.run(scenario())
    assert len(asked) == 1
