"""`metrics.table`: a row for each batch, and nothing of it that could end a run."""

from __future__ import annotations

import os
import sys
import threading
from datetime import UTC, date, datetime

import deltalake
import pytest
from deltalake import DeltaTable, write_deltalake

from josefine_broker.base.ids import TopicPartition
from pipelines.base.errors import SetupError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.inspect.writable_folders import folders, refuse_unwritable
from pipelines.report import progress_table
from pipelines.report.events import BatchDone
from pipelines.report.metrics import told
from pipelines.report.progress_rows import KEEP_DAYS
from pipelines.report.progress_table import ProgressTable
from pipelines.transforms.checks import Checked
from tests.unit.pipelines.config.test_validate import GOOD

NOW_S = 1_700_000_000.25
DAY_S = 86_400
P0, P1, P2 = (TopicPartition("orders", n) for n in range(3))


class Shown:
    """Hears only of the table."""

    def __init__(self):
        self.lines = []

    def table_failed(self, line):
        self.lines.append(line)

    def __getattr__(self, name):
        return lambda *said: None


@pytest.fixture
def shown():
    return Shown()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "new" / "progress")


def table_at(path, shown, **more):
    return ProgressTable("lab", path, shown, **{"now_s": lambda: NOW_S, "gather_s": 0.0, **more})


def done(**more):
    counts = {"records": 15, "rows": 12, "dead_letters": 3, "copies": 1, "seconds": 2.0}
    ends = {P0: 50, P1: 60}
    of = {"sink": "lake", "batch": 7, "version": 12, "starts": {P0: 35, P1: 60}, "ends": ends}
    return BatchDone(**(of | counts | more))


def rows_of(path):
    return DeltaTable(path).to_pyarrow_table().to_pylist()


def versions(path):
    return sorted(row["version"] for row in rows_of(path))


def test_a_row_says_what_a_batch_did_and_how_far_behind_the_table_is(path, shown):
    checked = {"good": Checked(rows=15, failed=3)}
    with table_at(path, shown) as table:
        table.watched("lake", None, lambda: {P0: 70, P1: 59, P2: 5})
        table.batch(done(checked=checked, parts={"checks": 0.5, "rows": 1.25}))

    assert rows_of(path) == [
        {
            "day": date(2023, 11, 14),
            "at": datetime(2023, 11, 14, 22, 13, 20, 250_000, UTC),
            "pipeline": "lab",
            "sink": "lake",
            "version": 12,
            "batch": 7,
            "offsets": [{"topic": "orders", "partition": 0, "start": 35, "end": 50}],
            "records": 15,
            "rows": 12,
            "dead_letters": 3,
            "copies": 1,
            "failed": [("good", 3)],
            "seconds": 2.0,
            "seconds_of": [("checks", 0.5), ("rows", 1.25)],
            "lag": 25,
        }
    ]
    assert shown.lines == []


def test_a_batch_that_was_there_gets_no_second_row(path, shown):
    with table_at(path, shown) as table:
        table.batch(done())
        table.batch(done(already_there=True, version=None))

    assert versions(path) == [12]


def test_a_row_without_lag_is_written_where_nobody_knows_it(path, shown):
    def away():
        raise ConnectionError("Spark is away")

    with table_at(path, shown) as table:
        table.batch(done())
        table.watched("lake", None, away)
        table.batch(done(version=13))

    assert [row["lag"] for row in rows_of(path)] == [None, None]


def test_rows_that_come_at_once_are_one_commit_and_the_end_waits_for_none(path, shown):
    with table_at(path, shown, gather_s=3600.0) as table:
        for version in range(20):
            table.batch(done(version=version))

    assert versions(path) == [*range(20)]
    assert DeltaTable(path).version() == 1


def test_what_cannot_be_written_is_told_once_and_later_rows_are_tried_again(path, shown):
    heard = threading.Event()
    tell = shown.table_failed
    shown.table_failed = lambda line: (tell(line), heard.set())
    blocked = path.rpartition("/")[0]
    with open(blocked, "w"), table_at(path, shown) as table:
        table.batch(done(version=1))
        assert heard.wait(60)
        os.remove(blocked)
        table.batch(done(version=2))

    assert versions(path) == [2]
    assert len(shown.lines) == 1
    assert shown.lines[0].startswith(f"metrics.table: {path}: 1 row not written: ")
    assert "\n" not in shown.lines[0]


def test_a_table_of_something_else_is_left_as_it_is(path, shown):
    import pyarrow as pa

    write_deltalake(path, pa.table({"id": [1]}))
    with table_at(path, shown) as table:
        table.batch(done())

    assert rows_of(path) == [{"id": 1}]
    assert len(shown.lines) == 1


def test_a_disk_that_stands_still_holds_up_no_batch_and_no_end(path, shown, monkeypatch):
    stands, goes_on = threading.Event(), threading.Event()

    def stand(*_):
        stands.set()
        goes_on.wait(60)
        return 1

    monkeypatch.setattr(progress_table, "_append", stand)
    monkeypatch.setattr(progress_table, "WAITING_MAX", 2)
    monkeypatch.setattr(progress_table, "ENDING_S", 0.05)
    with table_at(path, shown) as table:
        table.batch(done())
        assert stands.wait(60)
        for version in range(5):
            table.batch(done(version=version))
        assert shown.lines == [f"metrics.table: {path}: 2 rows wait for the disk"]
    goes_on.set()

    table._thread.join(60)
    assert not table._thread.is_alive()


def test_old_days_go_and_small_files_become_large_ones(path, shown, monkeypatch):
    monkeypatch.setattr(progress_table, "UPKEEP_COMMITS", 5)
    now_s = [NOW_S - (KEEP_DAYS + 1) * DAY_S]
    for version in range(5):
        if version == 3:
            now_s[0] = NOW_S
        with table_at(path, shown, now_s=lambda: now_s[0]) as table:
            table.batch(done(version=version))

    assert versions(path) == [3, 4]
    assert len(DeltaTable(path).file_uris()) == 1
    assert shown.lines == []


def test_upkeep_that_meets_another_run_says_nothing(path, shown, monkeypatch):
    """Two runs may share a table: both of them write and clean it."""
    monkeypatch.setattr(progress_table, "UPKEEP_COMMITS", 2)
    with table_at(path, shown) as first, table_at(path, shown) as second:
        for version in range(0, 20, 2):
            first.batch(done(version=version))
            second.batch(done(version=version + 1))

    found = versions(path)
    assert len(found) == len({*found})
    assert found == [*range(20)]
    assert shown.lines == []


def test_rows_are_written_again_where_another_run_makes_the_table_meanwhile(
    path, shown, monkeypatch
):
    """What it says of the table is then newer than what the append has read."""
    write, met = deltalake.write_deltalake, []

    def meanwhile(table, *rows, **how):
        if not met:
            DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
        met.append(DeltaTable(path).version())
        write(table, *rows, **how)

    monkeypatch.setattr(deltalake, "write_deltalake", meanwhile)
    with table_at(path, shown) as table:
        table.batch(done())

    assert versions(path) == [12]
    assert len(met) == 2
    assert shown.lines == []


def test_a_folder_that_cannot_be_written_stops_no_run_and_check_tells_of_it(tmp_path):
    there = tmp_path / "afile"
    there.touch()
    text = GOOD.replace("/ck", f"{tmp_path}/ck").replace("/lake", f"{tmp_path}/lake")
    text += f"metrics: {{ table: {there}/progress }}\n"
    pipeline = validate(load(text, "f.yaml", {}))

    refuse_unwritable(pipeline, {})

    assert {each.key: each.cause for each in folders(pipeline, {}) if each.cause} == {
        "metrics.table": f"{there} is not a folder"
    }


def test_a_run_without_delta_rs_is_refused_before_spark(path, shown, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)

    with (
        pytest.raises(SetupError, match=r"pip install 'deltalake"),
        table_at(path, shown),
    ):
        pass


def test_the_file_names_the_table_and_the_run_writes_it(tmp_path, shown):
    text = f"{GOOD}metrics: {{ table: {tmp_path}/progress }}\n"
    pipeline = validate(load(text, "f.yaml", {}))

    with told(pipeline, shown) as reporter:
        reporter.batch(done())

    assert versions(f"{tmp_path}/progress") == [12]
