"""A preview shows what a run would make of the newest records, and leaves nothing behind."""

from __future__ import annotations

import pytest

from josefine_cli.pipeline.source_preview import preview_of_source
from pipelines.config.validate import read_pipeline
from pipelines.inspect.preview import preview

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_a_preview_shows_rows_of_each_kind_of_node_and_writes_nothing(lab):
    lab.produce(20)
    lab.produce_raw(0, b"not json")
    pipeline = read_pipeline(lab.file, lab.environment(10))

    source = preview(lab.spark, pipeline, "events", rows=100, records=5)
    direct = preview_of_source(pipeline, "events", 100, 5)
    rows = preview(lab.spark, pipeline, "rows", rows=3, records=5)
    sink = preview(lab.spark, pipeline, "sums", rows=100, records=1000)

    # The newest five offsets of each partition; the last one of the first is no JSON.
    assert sorted(row["value"]["id"] for row in source.rows) == [11, 12, *range(13, 20)]
    assert source.bad == {"not JSON": 1}
    # The same without Spark; a topic's partitions come in any order from it.
    assert (direct.columns, direct.bad) == (source.columns, source.bad)
    assert [*direct.rows] == sorted(source.rows, key=lambda row: (row["partition"], row["offset"]))
    assert [*rows.columns] == ["id", "k", "v", "_topic", "_partition", "_offset"]
    assert len(rows.rows) == 3
    assert sorted(row["id"] for row in sink.rows) == [*range(20)]
    assert sorted(path.name for path in lab.directory.iterdir()) == ["lab.yaml"]
    assert lab.committed("lab.rows") == {}
