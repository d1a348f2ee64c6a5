"""What a write reads of its query's checkpoint: the query's id and a digest of a batch."""

from __future__ import annotations

import hashlib

import pytest

from josefine_spark.base.checkpoint_files import FINGERPRINT_CHARS, fingerprint, query_id
from josefine_spark.base.errors import SinkError


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text('{"id": "q-1"}')
    (tmp_path / "offsets" / "7").write_bytes(b"v1\n{}\nend")
    return str(tmp_path)


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_a_folder_of_this_machine_is_read_in_each_form_that_spark_writes(checkpoint, form):
    where = form.format(checkpoint)

    assert query_id(where) == "q-1"
    assert fingerprint(where, 7) == hashlib.sha256(b"v1\n{}\nend").hexdigest()[:FINGERPRINT_CHARS]


def test_a_batch_that_is_planned_again_has_another_fingerprint(checkpoint, tmp_path):
    before = fingerprint(checkpoint, 7)

    (tmp_path / "offsets" / "7").write_bytes(b"v1\n{}\nelsewhere")

    assert fingerprint(checkpoint, 7) != before


@pytest.mark.parametrize("metadata", ["", "[]", "{}", "not JSON"])
def test_metadata_without_an_id_is_an_error_with_the_checkpoints_place(
    checkpoint, tmp_path, metadata
):
    (tmp_path / "metadata").write_text(metadata)

    with pytest.raises(SinkError, match=f"cannot read metadata in the checkpoint {checkpoint}"):
        query_id(checkpoint)


@pytest.mark.parametrize("where", ["{}", "file:{}", "nosuch://{}"])
def test_a_batch_that_is_not_there_is_an_error_with_its_file(checkpoint, where):
    with pytest.raises(SinkError, match=r"cannot read offsets/8 in the checkpoint"):
        fingerprint(where.format(checkpoint), 8)
