"""Who cleans up the log of a table: delta-rs only by the properties that it reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from deltalake import DeltaTable

from josefine_journal.delta_store import DeltaStore
from josefine_journal.log_retention import why_not_cleaned
from josefine_journal.store_commit import cleanup
from tests.unit.josefine_journal.test_delta_store import append, batch

RETENTION = "delta.logRetentionDuration"
DAY_S = 86_400


@pytest.mark.parametrize(
    ("name", "text", "is_read"),
    [
        (RETENTION, "interval 365 days", True),
        (RETENTION, "interval 1 week", True),
        (RETENTION, "365 days", False),
        (RETENTION, "INTERVAL 365 DAYS", False),
        (RETENTION, "interval 1 year", False),
        ("delta.enableExpiredLogCleanup", "false", True),
        ("delta.enableExpiredLogCleanup", "FALSE", False),
        ("delta.checkpointRetentionDuration", "2 days", False),
        ("delta.deletedFileRetentionDuration", "interval 2 days", True),
        ("owner", "365 days", True),
    ],
)
def test_a_property_that_delta_rs_does_not_read_leaves_the_log_alone(
    name: str, text: str, is_read: bool
) -> None:
    why = why_not_cleaned({name: text})
    assert (why == "") == is_read
    assert is_read or f"{name} is `{text}`" in why


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [("365 days", True), ("interval 365 days", True), ("interval 9 days", False)],
)
def test_a_store_keeps_the_log_as_long_as_its_table_asks(
    tmp_path: Path, text: str, is_kept: bool
) -> None:
    """Also when old files are deleted, which makes commits of its own."""
    store, path = DeltaStore(tmp_path, "t", None), tmp_path / "t"
    store.commit([batch(None, 1, append(0, 1))])
    DeltaTable(path).alter.set_table_properties({RETENTION: text, "delta.checkpointInterval": "2"})
    for n in range(1, 5):
        make_old(path, 40)
        store.commit([batch(n, n + 1, append(n, n + 1))])
        make_old(path, 40)
        store.vacuum(24)

    assert [*path.glob("_delta_log/*.checkpoint.parquet")]
    assert (path / "_delta_log" / f"{0:020}.json").exists() == is_kept
    is_read = text.startswith("interval")
    assert cleanup(DeltaTable(path)).cleanup_expired_logs is (None if is_read else False)


def make_old(path: Path, days: int) -> None:
    for each in (path / "_delta_log").iterdir():
        then = each.stat().st_mtime - days * DAY_S
        os.utime(each, (then, then))
