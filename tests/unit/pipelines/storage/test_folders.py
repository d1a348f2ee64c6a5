"""Tables and checkpoints in S3: the commands without Spark, on a server on the loopback."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from josefine_cli.main import run
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.checkpoint import CheckpointFiles
from pipelines.storage.folders import Folders
from pipelines.storage.location import StorageError
from tests.support.object_store import SECRET_KEY, ObjectStore
from tests.unit.pipelines.inspect.test_dead_letter_reader import TYPES, _letter
from tests.unit.pipelines.inspect.test_preflight import LOCAL
from tests.unit.pipelines.inspect.test_status import Lake

WITHIN_S = 20
"""Far above the seconds that an answer takes, far below endless retries."""


class S3Lake(Lake):
    """The same pipeline, table and checkpoint in a bucket."""

    text = LOCAL
    held: socket.socket | None = None

    def __init__(self, folder, store: ObjectStore, **conf: str) -> None:
        self.store, self.bucket = store, store.bucket()
        super().__init__(folder)
        self.configure(**conf)

    def configure(self, **conf: str) -> None:
        """`conf`: settings of S3A, with `_` for a dot."""
        root = f"s3a://{self.bucket}"
        file = yaml.safe_load(
            self.text.replace("/ck", f"{root}/ck").replace("/lake", f"{root}/lake")
        )
        given = {f"spark.hadoop.fs.s3a.{k.replace('_', '.')}": v for k, v in conf.items()}
        file["spark"]["conf"] = {**self.store.conf, **given}
        self.file.write_text(yaml.safe_dump(file, sort_keys=False))

    def write(self, name: str, text: str) -> None:
        self.store.put(f"{self.bucket}/{name}", text)


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as store:
        yield store


@pytest.fixture
def lake(tmp_path, store, monkeypatch) -> S3Lake:
    monkeypatch.setenv("S3_SECRET", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    return S3Lake(tmp_path, store)


@pytest.fixture
def local(tmp_path) -> Lake:
    (tmp_path / "local").mkdir()
    lake = Lake(tmp_path / "local")
    text = LOCAL.replace("/ck", f"{lake.folder}/ck").replace("/lake", f"{lake.folder}/lake")
    lake.file.write_text(text)
    return lake


def said(capsys, *arguments: object) -> tuple[int, str]:
    """(exit code, both streams)."""
    code = run([str(each) for each in arguments])
    told = capsys.readouterr()
    return code, told.out + told.err


COMMANDS = [("status",), ("offsets", "show"), ("offsets", "reconcile"), ("graph", "--live")]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("end", [12, 8], ids=["agrees", "was set back"])
def test_each_command_prints_the_same_as_for_a_local_table(command, end, lake, local, capsys):
    for each in (lake, local):
        each.commit(end)
        each.checkpoint(12)

    here = said(capsys, "pipeline", *command, local.file)
    there = said(capsys, "pipeline", *command, lake.file)

    as_here = there[1].replace(f"s3a://{lake.bucket}", str(local.folder))
    assert (there[0], as_here.replace(str(lake.file), str(local.file))) == here
    assert "not known" not in here[1]


def test_without_a_commit_the_sink_would_start(lake, capsys):
    _, shown = said(capsys, "pipeline", "offsets", "show", lake.file)

    assert "would start: nothing was committed yet" in shown


def test_dead_letters_are_counted_without_a_jvm(lake, capsys, monkeypatch):
    monkeypatch.setattr("pipelines.run.session.start_session", pytest.fail)
    dead = "dead_letter: { type: delta, path: /lake_dead }\ntrigger:"
    lake.text = LOCAL.replace("trigger:", dead)
    lake.configure()
    rows = [{**_letter(1), "source": "raw"}, {**_letter(2), "source": "raw"}]
    uri = f"s3a://{lake.bucket}/lake_dead"
    table = pa.Table.from_pylist(rows, pa.schema(TYPES))
    write_deltalake(uri, table, storage_options=lake.store.delta)

    code, shown = said(capsys, "pipeline", "dlq", "show", lake.file)

    assert (code, shown.splitlines()[0]) == (0, f"{uri}: 2 dead letters not replayed")

    replayed = {"pipeline": "orders", **{k: v for k, v in rows[0].items() if k in REPLAYED}}
    schema = pa.schema({"pipeline": pa.string()} | {k: TYPES[k] for k in REPLAYED})
    done = pa.Table.from_pylist([replayed], schema)
    write_deltalake(f"{uri}_replayed", done, storage_options=lake.store.delta)
    _, shown = said(capsys, "pipeline", "dlq", "show", lake.file)
    assert shown.splitlines()[0] == f"{uri}: 1 dead letter not replayed"


REPLAYED = ("source", "topic", "partition", "offset", "timestamp")


def test_check_reads_the_table_in_the_store(lake, capsys):
    root = f"s3a://{lake.bucket}"
    _, before = said(capsys, "pipeline", "check", lake.file)
    write_deltalake(f"{root}/lake", pa.table({"id": [1]}), storage_options=lake.store.delta)
    _, after = said(capsys, "pipeline", "check", lake.file)

    assert f"ok: spark.checkpoint: {root}/ck can be reached" in before
    assert f"ok: sinks.lake.path: {root}/lake can be reached; the run makes the table" in before
    assert f"ok: sinks.lake.path: {root}/lake can be reached, its table read, at version 0" in after


def test_lint_and_check_warn_of_two_drivers_and_refuse_nothing(lake, capsys):
    code, linted = said(capsys, "pipeline", "lint", lake.file)
    _, checked = said(capsys, "pipeline", "check", lake.file)

    assert code == 0
    for shown in (linted, checked):
        assert shown.count("Delta's default for S3 is safe for one driver at a time") == 1
        assert f"warning: {lake.file}:" in shown


def test_a_folder_with_files_and_no_log_is_an_error_of_check(lake, capsys):
    lake.write("lake/odd.csv", "1")

    code, shown = said(capsys, "pipeline", "check", lake.file)

    assert code == 79
    assert "cannot be read: it has files (odd.csv) and no Delta log" in shown


def no_bucket(lake: S3Lake) -> str:
    lake.bucket = "nobody-made-it"
    lake.configure()
    return "there is no bucket `nobody-made-it`"


def wrong_key(lake: S3Lake) -> str:
    lake.store.refuse_keys()
    return f"{lake.store.endpoint} refuses the user; correct the keys"


def no_server(lake: S3Lake) -> str:
    lake.held = socket.socket()  # bound and not listening: nobody else gets the port meanwhile
    lake.held.bind(("127.0.0.1", 0))
    endpoint = f"http://127.0.0.1:{lake.held.getsockname()[1]}"
    lake.configure(endpoint=endpoint)
    return f"{endpoint} does not answer; correct `spark.hadoop.fs.s3a.endpoint`"


def half_a_key(lake: S3Lake) -> str:
    lake.configure(secret_key="")
    return "`spark.hadoop.fs.s3a.access.key` is set for bucket"


@pytest.mark.long_proof(share=4)
@pytest.mark.parametrize("fault", [no_bucket, wrong_key, no_server, half_a_key])
@pytest.mark.parametrize(
    "command", [("status",), ("offsets", "show"), ("check",), ("dlq", "show")], ids=" ".join
)
def test_a_store_that_fails_is_one_clear_error_within_seconds(fault, command, lake, capsys):
    dead = "dead_letter: { type: delta, path: /lake_dead }\ntrigger:"
    lake.text = LOCAL.replace("trigger:", dead)
    lake.configure()
    try:
        expected = fault(lake)
        start = time.monotonic()
        code, shown = said(capsys, "pipeline", *command, lake.file)
    finally:
        lake.store.refuse_keys(False)
        if lake.held is not None:
            lake.held.close()

    assert time.monotonic() - start < WITHIN_S
    assert code in (1, 79)
    assert expected in shown
    assert SECRET_KEY not in shown
    assert "Traceback" not in shown
    lines = [line for line in shown.splitlines() if expected in line]
    assert len(lines) == (3 if command == ("check",) else 1)


def test_a_checkpoint_is_set_aside_whole(lake):
    lake.checkpoint(12)
    pipeline = read_pipeline(lake.file, {"S3_SECRET": SECRET_KEY})
    folder = Folders(pipeline.conf, {}).open(pipeline.checkpoint_of("lake"))
    assert folder is not None
    files = CheckpointFiles(folder.files, folder.path, lambda text: pytest.fail(text))
    before = lake.store.keys(lake.bucket)

    aside = files.set_aside()

    assert aside == f"s3a://{lake.bucket}/ck/orders.lake.set-aside-1"
    after = lake.store.keys(lake.bucket)
    assert after == [key.replace("orders.lake/", "orders.lake.set-aside-1/") for key in before]


def test_a_store_that_is_neither_local_nor_s3_is_left_to_spark():
    assert Folders({}, {}).open("abfss://lake@account.dfs.core.windows.net/t") is None


def test_a_bucket_s_missing_is_reported_though_pyarrow_lists_it_as_empty(lake):
    pipeline = read_pipeline(lake.file, {"S3_SECRET": SECRET_KEY})
    folder = Folders(pipeline.conf, {}).open("s3a://absent/t")
    assert folder is not None

    with pytest.raises(StorageError, match="there is no bucket `absent`"):
        folder.files.names(folder.path)
