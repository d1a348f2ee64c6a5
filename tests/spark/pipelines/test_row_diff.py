"""The difference of two tables' rows by key: every kind of difference at once."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pipelines.deploy.row_diff import diff_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def tables(tmp_path):
    """Keys 1 and 5 are the same, 2 and 6 changed, 3 removed, 4 and 7 added. 5 is there twice."""
    ids = [1, 2, 3, 5, 5, 6]
    old = pa.table({
        "ID": pa.array(ids, pa.int32()),
        "v": [None, 2.5, 3.0, 5.0, 5.0, 6.0],
        "tags": pa.array([[("a", 1)]] * 6, pa.map_(pa.string(), pa.int64())),
        "gone": ["x"] * 6,
    })  # fmt: skip
    ids = [1, 2, 4, 5, 5, 6, 7]
    new = pa.table({
        "id": pa.array(ids, pa.int64()),
        "v": [None, 9.5, 4.0, 5.0, 5.0, 6.0, None],
        "tags": pa.array([[("a", 1)]] * 5 + [[("a", 2)]] * 2, pa.map_(pa.string(), pa.int64())),
        "more": ["y"] * 7,
    })  # fmt: skip
    paths = str(tmp_path / "old"), str(tmp_path / "new")
    for path, rows in zip(paths, (old, new), strict=True):
        write_deltalake(path, rows)
    # Not compared: it is later than the version that is asked for.
    write_deltalake(paths[0], old, mode="append")
    return paths


def test_rows_differ_by_key_and_a_few_of_each_kind_are_shown(spark, tables):
    old, new = tables

    by_key = diff_rows(spark, "lake", old, 0, new, ["id"])

    assert (by_key.old_rows, by_key.new_rows, by_key.keys) == (6, 7, ("id",))
    assert (by_key.added, by_key.removed, by_key.changed) == (2, 1, 2)
    assert sorted(by_key.left_out) == ["gone", "more"]
    changed, *_ = by_key.examples
    assert json.loads(changed.old)["id"] == json.loads(changed.new)["id"]
    two = [e for e in by_key.examples if e.old and e.new and '"2"' in e.old.replace(":2,", ':"2",')]
    assert (json.loads(two[0].old)["v"], json.loads(two[0].new)["v"]) == (2.5, 9.5)
    lines = [*by_key.lines()]
    assert lines[:2] == ["lake: 6 rows -> 7 rows by id", "    2 added, 1 removed, 2 changed"]
