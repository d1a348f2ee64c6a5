"""Each refusal of Delta's source is one verdict with its way out."""

from __future__ import annotations

import pytest

from pipelines.sources.table_refusals import why_table_failed
from tests.unit.pipelines.sources.test_table_stream import source


@pytest.mark.parametrize(
    ("failure", "way"),
    [
        ("[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Detected", "on_change: skip_changes"),
        ("[DELTA_MISSING_CHANGE_DATA] Error", "delta.enableChangeDataFeed = true"),
        ("[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected", "Run again"),
        ("[DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE] x", "start: { version: N }"),
        ("FileNotFoundException: File /t/x does not exist", "VACUUM"),
    ],
)
def test_refusal_of_delta_has_a_way_out(failure, way):
    told = why_table_failed(source("/t"), RuntimeError(failure))
    assert told.startswith("source `t` (/t): ")
    assert way in told
    assert "{place}" not in told


def test_other_failures_keep_their_own_reason():
    assert why_table_failed(source("/t"), RuntimeError("disk full")) == ""
    other = RuntimeError("FileNotFoundException: File /other/x does not exist")
    assert why_table_failed(source("/t"), other) == ""
