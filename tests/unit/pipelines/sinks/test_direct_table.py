"""A local Delta table that gets files by commits of delta-rs: real tables, no Spark."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pipelines.model.direct_append import FREE_FEATURES
from pipelines.sinks.commits import Link
from pipelines.sinks.delta_log import parse_entry
from pipelines.sinks.direct_table import (
    CameBetweenError,
    DirectTable,
    LocalFiles,
    NewFile,
    NotDirectError,
)

FIELDS = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
LINK = Link(pipeline="p", sink="s", run="r")


def direct(path: Path) -> DirectTable:
    return DirectTable(str(path), FIELDS, {"delta.checkpointInterval": "3"})


def new_file(folder: Path, *ids: int) -> NewFile:
    folder.mkdir(exist_ok=True)
    path = folder / f"part-{ids[0]}.parquet"
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)
    return NewFile(path=path, at_ms=1)


def add(table: DirectTable, staged: Path, version: int, *ids: int) -> None:
    actions = table.take([new_file(staged, *ids)] if ids else [])
    table.add(actions, version, LINK, version + 2, f'{{"n": {version}}}')


def ids(path: Path) -> list[int]:
    return sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist())


def log(path: Path, version: int) -> str:
    return (path / "_delta_log" / f"{version:020d}.json").read_text()


def written(
    path: Path, protocol: dict[str, Any], configuration: dict[str, str] | None = None
) -> None:
    """A table with this protocol, by hand."""
    metadata = {
        "id": "1", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
        "schemaString": json.dumps({"type": "struct", "fields": FIELDS}),
        "configuration": configuration or {}, "createdTime": 1,
    }  # fmt: skip
    (path / "_delta_log").mkdir(parents=True)
    lines = [{"protocol": protocol}, {"metaData": metadata}]
    text = "\n".join(map(json.dumps, lines))
    (path / "_delta_log" / f"{0:020d}.json").write_text(text)


def test_the_first_commit_makes_the_table_and_later_ones_have_files_or_offsets(
    tmp_path: Path,
) -> None:
    path, staged = tmp_path / "t", tmp_path / "staged"
    table = direct(path)
    assert table.check(-1) is None

    add(table, staged, -1, 1, 2)
    add(table, staged, 0)
    for version in range(1, 5):
        add(table, staged, version, version + 2)

    assert ids(path) == [1, 2, 3, 4, 5, 6]
    entry = parse_entry(4, log(path, 4), LINK.app_id)
    assert (entry.txn_version, entry.metadata, entry.operation) == (5, {"n": 3}, "WRITE")
    assert entry.metrics["numOutputRows"] == 1
    assert parse_entry(0, log(path, 0), LINK.app_id).txn_version == 1
    assert DeltaTable(path).metadata().configuration == {"delta.checkpointInterval": "3"}
    assert [*(path / "_delta_log").glob("*.checkpoint.parquet")]
    assert not [*staged.iterdir()]


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 1, "minWriterVersion": 1},
        *({"minReaderVersion": 1, "minWriterVersion": version} for version in (2, 3, 4)),
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly"]},
        {
            "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timestampNtz"],
            "writerFeatures": sorted(FREE_FEATURES),
        },
    ],
    ids=str,
)  # fmt: skip
def test_delta_rs_appends_to_each_protocol_that_is_allowed(
    tmp_path: Path, protocol: dict[str, Any]
) -> None:
    path = tmp_path / "t"
    feed = {"delta.enableChangeDataFeed": "true"} if protocol["minWriterVersion"] >= 4 else {}
    written(path, protocol, feed)
    table = direct(path)
    assert table.check(0) is not None

    add(table, tmp_path / "staged", 0, 7)

    assert ids(path) == [7]


def test_a_commit_of_others_comes_first_and_a_rule_of_others_counts(tmp_path: Path) -> None:
    path, staged = tmp_path / "t", tmp_path / "staged"
    mine, other = direct(path), direct(path)
    add(mine, staged, -1, 1)
    mine.check(0)
    other.check(0)
    add(other, staged, 0, 2)

    with pytest.raises(CameBetweenError, match="DELTA_CONCURRENT_"):
        direct(tmp_path / "t").check(0)
    with pytest.raises(CameBetweenError):
        add(mine, staged, 0, 3)
    assert ids(path) == [1, 2]
    DeltaTable(path).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(NotDirectError, match="positive"):
        add(mine, staged, 2, 3)
    assert ids(path) == [1, 2]


def test_a_restore_after_the_last_look_is_looked_at_before_the_next_commit(tmp_path: Path) -> None:
    path, staged = tmp_path / "t", tmp_path / "staged"
    table = direct(path)
    add(table, staged, -1, 1)
    add(table, staged, 0, 2)
    actions = table.take([new_file(staged, 3)])
    table.check(1)
    DeltaTable(path).restore(0)

    with pytest.raises(CameBetweenError):
        table.add(actions, 1, LINK, 3, "{}")

    assert ids(path) == [1]


def test_two_that_create_a_table_at_once_do_not_both_succeed(tmp_path: Path) -> None:
    path, staged = tmp_path / "t", tmp_path / "staged"
    mine, other = direct(path), direct(path)
    mine.check(-1)
    add(other, staged, -1, 1)

    with pytest.raises(CameBetweenError):
        add(mine, staged, -1, 2)
    assert ids(path) == [1]


def test_a_folder_with_files_of_others_gets_no_table_but_that_of_a_killed_first_commit_does(
    tmp_path: Path,
) -> None:
    theirs, mine, staged = tmp_path / "theirs", tmp_path / "mine", tmp_path / "staged"
    theirs.mkdir()
    (theirs / "part-0.parquet").touch()
    with pytest.raises(NotDirectError, match="other files"):
        direct(theirs).check(-1)
    direct(mine).take([new_file(staged, 1)])

    add(direct(mine), staged, -1, 2)

    assert ids(mine) == [2]


def test_a_protocol_that_delta_rs_does_not_know_is_for_spark(tmp_path: Path) -> None:
    path = tmp_path / "t"
    written(path, {
        "minReaderVersion": 3, "minWriterVersion": 7,
        "readerFeatures": ["ofNextYear"], "writerFeatures": ["ofNextYear"],
    })  # fmt: skip

    with pytest.raises(NotDirectError):
        direct(path).check(0)


def test_a_hint_replaces_hadoops_with_its_checksum(tmp_path: Path) -> None:
    hint = tmp_path / "_josefine" / "p.s.json"
    LocalFiles().write_text(str(hint), "old")
    (hint.parent / ".p.s.json.crc").touch()

    LocalFiles().write_text(str(hint), "new")

    assert [each.name for each in hint.parent.iterdir()] == ["p.s.json"]
    assert hint.read_text() == "new"


def test_a_checkpoint_by_delta_rs_has_no_checksum_of_sparks_last_one(tmp_path: Path) -> None:
    path, staged = tmp_path / "t", tmp_path / "staged"
    table = direct(path)
    add(table, staged, -1, 1)
    stale = path / "_delta_log" / "._last_checkpoint.crc"

    for version in range(3):
        stale.touch()
        add(table, staged, version, version + 2)
        assert not stale.exists()

    assert (stale.parent / "_last_checkpoint").exists()


def test_files_with_statistics_of_other_columns_than_the_tables_are_not_added(
    tmp_path: Path,
) -> None:
    path, staged = tmp_path / "t", tmp_path / "staged"
    add(direct(path), staged, -1, 1)
    table = direct(path)
    actions = table.take([new_file(staged, 2)])  # of a table whose rules are not known yet
    DeltaTable(path).alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "40"})

    with pytest.raises(NotDirectError, match="statistics"):
        table.add(actions, 1, LINK, 3, "{}")

    assert ids(path) == [1]
    add(table, staged, 1, 3)
    assert ids(path) == [1, 3]


def test_files_that_arrow_cannot_read_are_for_spark(tmp_path: Path) -> None:
    good = new_file(tmp_path / "staged", 1)
    bad = NewFile(path=tmp_path / "staged" / "part-2.parquet", at_ms=1)
    bad.path.write_bytes(b"PARE" * 20)

    with pytest.raises(NotDirectError, match="cannot be read"):
        direct(tmp_path / "t").take([good, bad])

    assert good.path.exists()


def test_the_log_of_a_table_that_keeps_it_for_a_year_stays(tmp_path: Path) -> None:
    keep = {"delta.logRetentionDuration": "365 days", "delta.checkpointInterval": "3"}
    path, old = tmp_path / "t", time.time() - 100 * 86_400
    table = DirectTable(str(path), FIELDS, keep)
    add(table, tmp_path / "staged", -1, 1)

    with pytest.raises(NotDirectError, match="365 days"):
        table.check(0)
    DeltaTable(path).alter.set_table_properties({"delta.logRetentionDuration": "interval 365 days"})
    for version in range(1, 5):
        for each in (path / "_delta_log").iterdir():
            os.utime(each, (old, old))
        add(table, tmp_path / "staged", version, version + 1)
    assert log(path, 0)
