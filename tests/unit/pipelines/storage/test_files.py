"""The file operations of this machine and of S3 give the same answers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pipelines.storage.files import Files, FolderFiles, ObjectFiles
from pipelines.storage.folders import Folders
from pipelines.storage.location import StorageError
from tests.support.object_store import ACCESS_KEY, SECRET_KEY, ObjectStore


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as store:
        yield store


def environment(store: ObjectStore) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ENDPOINT_URL": store.endpoint,
    }


@pytest.fixture(params=["this machine", "S3", "a whole bucket"])
def place(request, tmp_path, store) -> tuple[Files, str]:
    """(files, a folder with one file)."""
    if request.param == "this machine":
        (tmp_path / "t/log").mkdir(parents=True)
        files: Files = FolderFiles()
        path = f"{tmp_path}/t"
    else:
        where = "t" if request.param == "S3" else ""
        folder = Folders({}, environment(store)).open(f"s3a://{store.bucket()}/{where}")
        assert folder is not None
        files, path = folder.files, folder.path
        assert isinstance(files, ObjectFiles)
    files.write_text(f"{path}/log/0", "größer")
    return files, path


def test_a_file_is_read_as_it_was_written_and_replaced(place):
    files, path = place
    assert files.read_text(f"{path}/log/0") == "größer"

    files.write_text(f"{path}/log/0", "")
    assert files.read_text(f"{path}/log/0") == ""


def test_names_are_those_of_one_level_sorted(place):
    files, path = place
    files.write_text(f"{path}/log/1", "b")

    assert files.names(path) == ["log"]
    assert files.names(f"{path}/log") == ["0", "1"]


def test_what_is_missing_is_no_error(place):
    files, path = place

    assert files.read_text(f"{path}/log/7") is None
    assert files.names(f"{path}/none") == []


def test_a_table_whose_path_is_a_file_is_refused_by_its_name(place):
    files, path = place
    message = re.escape(f"{path}/log/0 is a file, not a folder; remove it or correct the path")

    with pytest.raises(StorageError, match=f"^{message}$"):
        files.names(f"{path}/log/0")
    with pytest.raises(StorageError, match=f"^{message}$"):
        files.names(f"{path}/log/0/_delta_log")


def test_an_empty_bucket_has_no_names(store):
    folder = Folders({}, environment(store)).open(f"s3a://{store.bucket()}")
    assert folder is not None

    assert folder.files.names(folder.path) == []


def test_a_removed_file_is_gone(place):
    files, path = place
    files.write_text(f"{path}/log/1", "b")
    files.remove(f"{path}/log/0")

    assert files.names(f"{path}/log") == ["1"]


def test_a_renamed_folder_has_all_its_files(place):
    files, path = place
    files.write_text(f"{path}/log/1", "b")
    files.rename(f"{path}/log", f"{path}/log.old")

    assert files.names(path) == ["log.old"]
    assert files.read_text(f"{path}/log.old/0") == "größer"
    assert files.read_text(f"{path}/log.old/1") == "b"
