"""The settings of a path in Google Cloud Storage, and the files of a bucket."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyarrow.fs import FileSelector

from pipelines.storage.files import ObjectFiles
from pipelines.storage.folders import Folders
from pipelines.storage.google import arrow_arguments, delta_options, google_location
from pipelines.storage.location import StorageError, why_failed

GS = "spark.hadoop.fs.gs."
PATH = "gs://lake/a//t/"
ANONYMOUS = {f"{GS}auth.type": "UNAUTHENTICATED", f"{GS}storage.root.url": "http://there:4443/"}
KEY_FILE = {f"{GS}auth.service.account.json.keyfile": "/k.json"}
NAMED = {"GOOGLE_APPLICATION_CREDENTIALS": "/k.json"}


def at(given=ANONYMOUS, env=()):
    found = google_location(PATH, given, dict(env))
    assert found is not None
    return found


def test_a_path_is_a_bucket_and_a_key_without_double_slashes():
    assert (at().uri, at().bucket, at().key) == ("gs://lake/a/t", "lake", "a/t")


@pytest.mark.parametrize(
    ("given", "env", "known"),
    [
        ({}, {}, False),
        ({}, NAMED, True),
        ({f"{GS}auth.type": "APPLICATION_DEFAULT"}, {}, True),
        ({f"{GS}auth.type": "COMPUTE_ENGINE"}, {}, True),
        ({f"{GS}auth.type": "USER_CREDENTIALS"}, NAMED, False),
        (KEY_FILE, {}, False),
        (KEY_FILE, NAMED, True),
        (KEY_FILE, {"GOOGLE_APPLICATION_CREDENTIALS": "/other.json"}, False),
        (KEY_FILE | {f"{GS}auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"}, NAMED, True),
    ],
)
def test_a_path_whose_user_the_libraries_cannot_be_is_left_to_spark(given, env, known):
    assert (google_location(PATH, given, env) is not None) is known


def test_the_libraries_get_the_store_that_spark_has():
    arrow = arrow_arguments(at())

    assert (arrow["scheme"], arrow["endpoint_override"]) == ("http", "there:4443")
    assert arrow["anonymous"] is True
    assert delta_options(at()).items() >= {
        "GOOGLE_BASE_URL": "http://there:4443",
        "GOOGLE_SKIP_SIGNATURE": "true",
        "GOOGLE_ALLOW_HTTP": "true",
    }.items()  # fmt: skip
    assert "endpoint_override" not in arrow_arguments(at(KEY_FILE, NAMED))
    assert delta_options(at(KEY_FILE, NAMED)).keys() == {"connect_timeout", "max_retries"}


def test_a_path_without_a_bucket_is_one_error_with_the_form():
    with pytest.raises(StorageError, match="gs://BUCKET/FOLDER"):
        google_location("gs:///t", ANONYMOUS, {})


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("Bucket 'lake' not found", "there is no bucket `lake`"),
        ("google::cloud::Status(PERMISSION_DENIED: no)", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("INVALID_ARGUMENT: no OAuth2 token: cannot open /k", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("UNAVAILABLE: Retry policy exhausted", "`spark.hadoop.fs.gs.storage.root.url`"),
        (
            "Kernel error -> Generic GCS error\n  \x1b[31m↳\x1b[0m HTTP error\n  ↳ odd answer\n",
            "fails: Kernel error -> Generic GCS error: HTTP error: odd answer",
        ),
    ],
)
def test_an_error_of_the_store_is_one_sentence_with_the_path(error, sentence):
    told = why_failed(at(), error)

    assert told.startswith("gs://lake/a/t: ")
    assert sentence in told


def test_a_folder_is_opened_without_a_request():
    folder = Folders(ANONYMOUS, {}).open(PATH)

    assert folder is not None
    assert folder.path == "gs://lake/a/t"
    assert folder.options["GOOGLE_BASE_URL"] == "http://there:4443"


class Flat:
    """Lists objects as pyarrow does in Google's store: no folder that has no marker object."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def get_file_info(self, asked):
        if not isinstance(asked, FileSelector):
            return SimpleNamespace(type=None)
        below = [key for key in self.keys if key.startswith(f"{asked.base_dir}/")]
        depth = asked.base_dir.count("/") + 1
        return [
            SimpleNamespace(path=key)
            for key in below
            if asked.recursive or key.count("/") == depth
        ]  # fmt: skip


def test_folders_without_a_marker_object_are_named_too():
    files = ObjectFiles(Flat("lake/a/t/x", "lake/a/t/offsets/0", "lake/a/t/offsets/1"), at())

    assert files.names("gs://lake/a/t") == ["offsets", "x"]
