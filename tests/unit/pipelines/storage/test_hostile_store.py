"""Tables and checkpoints in a store that fails: the right answer, or one clear sentence in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random

import pytest
from deltalake import DeltaTable

from josefine_cli.main import run
from pipelines.config.validate import read_pipeline
from pipelines.report.metrics import told
from pipelines.storage.files import ObjectFiles
from pipelines.storage.folders import Folders
from pipelines.storage.location import ATTEMPTS_MAX, StorageError
from tests.support.hostile_store import Fault, HostileStore, always, by_seed, none, once
from tests.support.object_store import ACCESS_KEY, SECRET_KEY, ObjectStore
from tests.unit.pipelines.inspect.test_preflight import LOCAL
from tests.unit.pipelines.report.test_progress_table import Shown, done
from tests.unit.pipelines.storage.test_folders import S3Lake

WITHIN_S = 30
TEXT = "größer\n" * 400


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as store:
        yield store


@pytest.fixture
def proxy(store, monkeypatch) -> Iterator[HostileStore]:
    monkeypatch.setenv("S3_SECRET", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    with HostileStore(store.endpoint) as proxy:
        yield proxy


@pytest.fixture
def folder(store, proxy) -> tuple[ObjectFiles, str]:
    """(files, a folder of two): by the proxy."""
    env = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    opened = Folders({}, {**env, "AWS_ENDPOINT_URL": proxy.endpoint}).open(
        f"s3a://{store.bucket()}/t"
    )
    assert opened is not None
    files = opened.files
    assert isinstance(files, ObjectFiles)
    files.write_text(f"{opened.path}/0", TEXT)
    files.write_text(f"{opened.path}/1", "")
    return files, opened.path


@pytest.mark.parametrize("fault", [each for each in Fault if each is not Fault.DOUBLED])
def test_a_read_that_fails_once_is_repeated(fault, folder, proxy):
    files, path = folder

    proxy.plan = once(fault, "GET", "/0")
    assert files.read_text(f"{path}/0") == TEXT
    proxy.plan = once(fault, "GET", "list-type")
    assert files.names(path) == ["0", "1"]

    assert [each[0] for each in proxy.seen] == [fault] * 2


@pytest.mark.parametrize("seed", range(3))
def test_reads_of_a_failing_store_are_right_or_one_sentence(seed, folder, proxy):
    files, path = folder
    proxy.plan = by_seed(seed, 0.3)
    rng, failed = Random(seed), list[str]()
    for _ in range(12):
        try:
            if rng.random() < 0.5:
                assert files.names(path) == ["0", "1"]
            else:
                assert files.read_text(f"{path}/0") == TEXT
        except StorageError as error:
            failed.append(str(error))

    assert proxy.seen
    assert len(failed) < 6
    assert [each for each in failed if not each.startswith(path) or "\n" in each] == []


def test_a_store_that_refuses_for_ever_is_asked_a_few_times_and_named(folder, proxy):
    files, path = folder
    proxy.plan = always(Fault.SLOW_DOWN)
    start = time.monotonic()

    with pytest.raises(StorageError, match="asks for fewer requests") as found:
        files.read_text(f"{path}/0")

    assert time.monotonic() - start < WITHIN_S
    assert str(found.value).count("\n") == 0
    assert len(proxy.seen) <= 2 * ATTEMPTS_MAX


@pytest.mark.parametrize("fault", Fault)
def test_a_written_text_is_whole_or_its_writer_has_an_error(fault, folder, proxy):
    files, path = folder
    proxy.plan = once(fault, "PUT", "/2")
    try:
        files.write_text(f"{path}/2", TEXT)
        written = [TEXT]
    except StorageError:
        written = [TEXT, None]

    proxy.plan = none
    assert files.read_text(f"{path}/2") in written


@pytest.mark.long_proof(share=4)
@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.LOST_ANSWER, Fault.CUT_ANSWER])
def test_a_status_through_a_failing_store_is_right_or_one_line(
    fault, tmp_path, store, proxy, capsys
):
    lake = S3Lake(tmp_path, store)
    lake.commit(12)
    lake.checkpoint(12)
    lake.configure(endpoint=proxy.endpoint)
    proxy.plan = none
    assert run(["pipeline", "status", str(lake.file)]) == 0
    right = capsys.readouterr().out
    proxy.plan = by_seed(1, 0.2, [fault])

    code = run(["pipeline", "status", str(lake.file)])

    shown = capsys.readouterr()
    assert proxy.seen
    assert "Traceback" not in shown.err
    assert shown.out == right or code != 0


METRICS = "metrics: {{ table: '{}' }}\ntrigger:"


def metric_lake(folder, store: ObjectStore) -> S3Lake:
    lake = S3Lake(folder, store)
    lake.text = LOCAL.replace("trigger:", METRICS.format(f"s3a://{lake.bucket}/progress"))
    lake.configure()
    return lake


@pytest.mark.long_proof(share=4)
@pytest.mark.parametrize("fault", [None, *Fault])
def test_a_row_of_the_metric_table_in_s3_is_written_once(fault, tmp_path, store, proxy):
    lake = metric_lake(tmp_path, store)
    lake.configure(endpoint=proxy.endpoint)
    pipeline = read_pipeline(lake.file, {"S3_SECRET": SECRET_KEY})
    at = f"s3a://{lake.bucket}/progress"
    shown = Shown()
    for version, plan in ((1, none), (2, once(fault, "PUT", "_delta_log/0") if fault else none)):
        proxy.plan = plan
        with told(pipeline, shown) as reporter:
            reporter.batch(done(version=version))

    assert shown.lines == []
    assert [each[0] for each in proxy.seen] == ([fault] if fault else [])
    rows = DeltaTable(at, storage_options=store.delta).to_pyarrow_table().to_pylist()
    assert sorted(row["version"] for row in rows) == [1, 2]


def test_a_metric_table_in_a_missing_bucket_is_one_warning_without_a_secret(tmp_path, store, proxy):
    lake = metric_lake(tmp_path, store)
    lake.file.write_text(
        lake.file.read_text().replace(f"{lake.bucket}/progress", "absent/progress")
    )
    pipeline = read_pipeline(lake.file, {"S3_SECRET": SECRET_KEY})
    shown = Shown()

    with told(pipeline, shown) as reporter:
        reporter.batch(done())

    (line,) = shown.lines
    assert line.startswith("metrics.table: s3a://absent/progress: 1 row not written")
    assert SECRET_KEY not in line


def test_check_reaches_the_metric_table_in_s3(tmp_path, store, proxy, capsys):
    lake = metric_lake(tmp_path, store)

    run(["pipeline", "check", str(lake.file)])

    assert f"ok: metrics.table: s3a://{lake.bucket}/progress can be reached" in (
        capsys.readouterr().out
    )


def test_the_dashboard_reads_the_newest_commits_of_a_table_in_s3(tmp_path, store, proxy):
    from josefine_cli.dashboard.pipelines import _commits
    from pipelines.inspect.status import status
    from pipelines.sources.kinds import ANY_KIND

    lake = S3Lake(tmp_path, store)
    lake.commit(12)
    lake.checkpoint(12)
    pipeline = read_pipeline(lake.file, {"S3_SECRET": SECRET_KEY})
    (found,) = status(pipeline, ANY_KIND.look)

    assert _commits(pipeline, found)[1] is not None
