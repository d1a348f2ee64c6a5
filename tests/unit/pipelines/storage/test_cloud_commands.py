"""The commands without Spark over tables in Azure and Google's store: the stores are folders.

pyarrow's file system and delta-rs' table are replaced by those of a folder; the settings, the
paths and the errors are the program's own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
import yaml
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from josefine_cli.dashboard.pipelines import asker
from josefine_cli.main import run
from pipelines.base.errors import SetupError
from pipelines.config.validate import read_pipeline
from pipelines.report.metrics import told
from pipelines.storage import folders
from tests.unit.pipelines.inspect.test_dead_letter_reader import TYPES, _letter
from tests.unit.pipelines.inspect.test_preflight import LOCAL
from tests.unit.pipelines.inspect.test_status import Lake
from tests.unit.pipelines.report.test_progress_table import Shown, done

SECRET = "aHVzaC1odXNo"
HOST = "acme.dfs.core.windows.net"


@dataclass(frozen=True)
class Store:
    """A kind of store: its root, a user's settings, what a refused user and a missing user read."""

    root: str
    settings: dict[str, str]
    refusal: str
    refused: str
    no_user: str

    @property
    def scheme(self) -> str:
        return self.root.partition("://")[0]

    @property
    def bucket(self) -> str:
        return self.root.partition("://")[2].partition("@")[0]


AZURE = Store(
    root=f"abfss://lake@{HOST}",
    settings={f"spark.hadoop.fs.azure.account.key.{HOST}": SECRET},
    refusal="GetProperties failed. Azure Error: [AuthenticationFailed] 403 Server failed\nid: 1",
    refused="Azure's account acme refuses the user; correct the settings",
    no_user="neither `spark.hadoop.fs.azure.account.*` nor AZURE_STORAGE_ACCOUNT_KEY",
)
GOOGLE = Store(
    root="gs://lake",
    settings={"spark.hadoop.fs.gs.auth.type": "APPLICATION_DEFAULT"},
    refusal="google::cloud::Status(UNAUTHENTICATED: Permanent error in GetBucket)\nmore",
    refused="Google Cloud Storage refuses the user; correct GOOGLE_APPLICATION_CREDENTIALS",
    no_user="neither GOOGLE_APPLICATION_CREDENTIALS nor `spark.hadoop.fs.gs.auth.type`",
)


class Objects(SubTreeFileSystem):
    """A store needs no folder for an object."""

    def copy_file(self, old: str, new: str) -> None:
        self.create_dir(new.rpartition("/")[0])
        super().copy_file(old, new)


class CloudLake(Lake):
    """The pipeline of `Lake` with its paths in a store, whose files are in a folder."""

    def __init__(self, home: Path, store: Store) -> None:
        self.store = store
        self.objects = home / "objects"
        (self.objects / store.bucket).mkdir(parents=True)
        super().__init__(home)
        self.folder = self.objects / store.bucket
        self.configure(store.settings)

    def configure(self, settings: dict[str, str]) -> None:
        root = self.store.root
        more = f"dead_letter: {{ type: delta, path: '{root}/dead' }}\n"
        more += f"metrics: {{ table: '{root}/progress' }}\ntrigger:"
        self.write_file(LOCAL.replace("trigger:", more), settings)

    def write_file(self, text: str, settings: dict[str, str]) -> None:
        root = self.store.root  # which has `/lake` in it
        file = yaml.safe_load(
            text.replace(" /lake", f" {root}/lake").replace(" /ck", f" {root}/ck")
        )
        file["spark"]["conf"] = settings
        self.file.write_text(yaml.safe_dump(file, sort_keys=False))

    def local(self, uri: str) -> str:
        """The folder of a URI; delta-rs is given no path of this machine."""
        assert uri.startswith(f"{self.store.root}/")
        return f"{self.folder}/{uri.removeprefix(f'{self.store.root}/')}"


@pytest.fixture(params=[AZURE, GOOGLE], ids=lambda store: store.scheme)
def lake(tmp_path, request, monkeypatch) -> CloudLake:
    for name in (
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_ENDPOINT",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "HADOOP_CONF_DIR",
    ):
        monkeypatch.delenv(name, raising=False)  # fmt: skip
    home = tmp_path / "store"
    home.mkdir()
    lake = CloudLake(home, request.param)
    stand_in(lake, monkeypatch, lambda at: Objects(str(lake.objects), LocalFileSystem()))
    table, write = deltalake.DeltaTable, deltalake.write_deltalake

    class Table(table):
        def __init__(self, path: str, *more: Any, storage_options: Any, **named: Any) -> None:
            super().__init__(lake.local(path), *more, **named)

        @classmethod
        def create(cls, path: str, *more: Any, storage_options: Any, **named: Any) -> Any:
            return table.create(lake.local(path), *more, **named)

    def write_table(path: Any, *more: Any, storage_options: Any = None, **named: Any) -> None:
        write(lake.local(path) if isinstance(path, str) else path, *more, **named)

    monkeypatch.setattr(deltalake, "DeltaTable", Table)
    monkeypatch.setattr(deltalake, "write_deltalake", write_table)
    return lake


def stand_in(lake: CloudLake, monkeypatch: Any, system: Callable[[Any], Any]) -> None:
    """Opens the store with another file system."""
    kind = folders._KINDS[lake.store.scheme]
    made = replace(kind, open=lambda at: (system(at), {"user": "known"}))
    monkeypatch.setitem(folders._KINDS, lake.store.scheme, made)


@pytest.fixture
def here(tmp_path) -> Lake:
    """The same on this machine."""
    home = tmp_path / "here"
    home.mkdir()
    lake = Lake(home)
    text = LOCAL.replace("/ck", f"{home}/ck").replace("/lake", f"{home}/lake")
    lake.file.write_text(text)
    return lake


def said(capsys, *arguments: object) -> tuple[int, str]:
    """(exit code, both streams)."""
    code = run(["pipeline", *map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out + shown.err


COMMANDS = [("status",), ("offsets", "show"), ("offsets", "reconcile"), ("graph", "--live")]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("end", [12, 8], ids=["agrees", "was set back"])
def test_each_command_prints_the_same_as_for_a_local_table(command, end, lake, here, capsys):
    lake.write_file(LOCAL, lake.store.settings)
    for each in (lake, here):
        each.commit(end)
        each.checkpoint(12)

    expected = said(capsys, *command, here.file)
    code, found = said(capsys, *command, lake.file)

    found = found.replace(lake.store.root, str(here.folder)).replace(str(lake.file), str(here.file))
    assert (code, found) == expected
    assert "not known" not in found


def test_reconcile_sets_a_checkpoint_aside_in_the_store(lake, capsys):
    lake.commit(8)
    lake.checkpoint(12)

    code, shown = said(capsys, "offsets", "reconcile", lake.file, "--trust", "table", "--execute")

    assert code == 0, shown
    names = {each.name for each in (lake.folder / "ck").iterdir()}
    assert "orders.lake.set-aside-1" in names
    assert "orders.lake" not in names


def test_dead_letters_are_counted_without_a_jvm(lake, capsys, monkeypatch):
    monkeypatch.setattr("pipelines.run.session.start_session", pytest.fail)
    rows = [{**_letter(n), "source": "raw"} for n in (1, 2)]
    letters = f"{lake.store.root}/dead"
    deltalake.write_deltalake(letters, pa.Table.from_pylist(rows, pa.schema(TYPES)))

    code, shown = said(capsys, "dlq", "show", lake.file)

    assert (code, shown.splitlines()[0]) == (0, f"{letters}: 2 dead letters not replayed")


def test_check_reads_every_folder_in_the_store(lake, capsys):
    root = lake.store.root
    deltalake.write_deltalake(f"{root}/lake", pa.table({"id": [1]}))

    _, shown = said(capsys, "check", lake.file)

    assert f"ok: spark.checkpoint: {root}/ck can be reached" in shown
    assert f"ok: sinks.lake.path: {root}/lake can be reached, its table read, at version 0" in shown
    assert f"ok: metrics.table: {root}/progress can be reached" in shown
    assert "skipped" not in shown


def test_a_row_of_the_metric_table_is_written_into_the_store(lake):
    pipeline = read_pipeline(lake.file, {})
    shown = Shown()

    with told(pipeline, shown) as reporter:
        reporter.batch(done())

    assert shown.lines == []
    table = deltalake.DeltaTable(f"{lake.store.root}/progress", storage_options={})
    assert table.to_pyarrow_table().num_rows == 1


def test_the_dashboard_shows_commits_and_dead_letters_of_the_store(lake):
    lake.commit(12)
    lake.checkpoint(12)
    letters = pa.Table.from_pylist([{**_letter(1), "source": "raw"}], pa.schema(TYPES))
    deltalake.write_deltalake(f"{lake.store.root}/dead", letters)

    page = asker(read_pipeline(lake.file, {}))()

    (sink,) = page["sinks"]
    assert (sink["version"], sink["unknown"]) == (0, "")
    assert page["dead_letters"]["counts"] == [{"source": "raw", "reason": "not JSON", "count": 1}]


def refused(lake: CloudLake, monkeypatch: Any) -> str:
    """The store knows no such user: each request fails with what the store's library raises."""

    class Refusing:
        def __getattr__(self, name: str) -> Any:
            def fail(*_: Any, **__: Any) -> Any:
                raise OSError(lake.store.refusal)

            return fail

    stand_in(lake, monkeypatch, lambda at: Refusing())
    return lake.store.refused


def no_user(lake: CloudLake, monkeypatch: Any) -> str:
    lake.configure({})
    return lake.store.no_user


@pytest.mark.parametrize("fault", [refused, no_user])
@pytest.mark.parametrize("command", [("check",), ("status",), ("offsets", "show")], ids=" ".join)
def test_a_store_without_a_right_user_is_one_sentence(command, fault, lake, capsys, monkeypatch):
    expected = fault(lake, monkeypatch)

    _, shown = said(capsys, *command, lake.file)

    lines = [line for line in shown.splitlines() if expected in line]
    assert len(lines) == (4 if command == ("check",) else 1), shown
    assert all(lake.store.root in line for line in lines)
    assert "Traceback" not in shown
    assert SECRET not in shown


def test_dead_letters_and_dashboard_report_a_refused_user(lake, capsys, monkeypatch):
    expected = refused(lake, monkeypatch)

    code, shown = said(capsys, "dlq", "show", lake.file)
    page = asker(read_pipeline(lake.file, {}))()

    assert code == 79
    assert expected in shown
    assert expected in str(page)
    assert "Traceback" not in shown


def test_a_metric_table_without_a_user_is_refused_before_the_run(lake):
    lake.configure({})
    pipeline = read_pipeline(lake.file, {})

    with pytest.raises(SetupError) as error, told(pipeline, Shown()):
        pass

    assert str(error.value).startswith("metrics.table: ")
    assert lake.store.no_user in str(error.value)


def test_a_table_that_was_dropped_is_one_that_the_run_makes(lake, capsys):
    lake.commit(12)
    shutil.rmtree(lake.folder / "lake")

    code, shown = said(capsys, "offsets", "show", lake.file)

    assert (code, "nothing was committed yet" in shown) == (0, True)
