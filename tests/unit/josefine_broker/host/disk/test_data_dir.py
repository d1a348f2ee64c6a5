"""The data directory's lock and address file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from josefine_broker.host.disk.data_dir import (
    ADDRESSES_FILE,
    IDENTITY_FILE,
    METADATA_DIR,
    DataDirError,
    DataDirLock,
    Identity,
    belong,
    claim,
    remove_addresses,
    write_addresses,
)


def test_second_lock_names_the_holder_and_release_frees_it(tmp_path: Path) -> None:
    lock = DataDirLock(tmp_path / "new" / "data")
    with pytest.raises(DataDirError, match=rf"in use by another broker \(process {os.getpid()}\)"):
        DataDirLock(tmp_path / "new" / "data")
    lock.release()
    DataDirLock(tmp_path / "new" / "data").release()


def test_a_file_in_the_place_of_the_directory_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(DataDirError, match="cannot be used: File exists"):
        DataDirLock(tmp_path / "data")


def test_addresses_are_replaced_whole_and_removed(tmp_path: Path) -> None:
    write_addresses(tmp_path, {"listeners": {"A": "h:1"}})
    write_addresses(tmp_path, {"listeners": {"A": "h:2"}})
    assert json.loads((tmp_path / ADDRESSES_FILE).read_text()) == {"listeners": {"A": "h:2"}}
    remove_addresses(tmp_path)
    remove_addresses(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_belongs_to_the_broker_that_first_claimed_it(tmp_path: Path) -> None:
    assert claim(tmp_path, 1) == Identity(1, "")
    assert claim(tmp_path, 1) == Identity(1, "")
    with pytest.raises(DataDirError, match=r"belongs to broker 1, but broker\.id is 2"):
        claim(tmp_path, 2)


def test_a_directory_belongs_to_the_first_cluster_that_it_was_in(tmp_path: Path) -> None:
    identity = belong(tmp_path, claim(tmp_path, 1), "first")
    assert identity == claim(tmp_path, 1) == Identity(1, "first")
    assert belong(tmp_path, identity, "first") == identity
    with pytest.raises(DataDirError, match="belongs to cluster first, but its metadata to"):
        belong(tmp_path, identity, "second")


def test_a_cluster_noted_before_its_birth_was_committed_binds_nobody(tmp_path: Path) -> None:
    """As older versions did; then the directory was locked out of the cluster for ever."""
    noted = {"version": 1, "broker_id": 1, "cluster_id": "never born"}
    (tmp_path / IDENTITY_FILE).write_text(json.dumps(noted))

    identity = claim(tmp_path, 1)
    assert identity == Identity(1, "")
    assert belong(tmp_path, identity, "born") == claim(tmp_path, 1) == Identity(1, "born")


def test_a_cluster_noted_by_an_older_version_is_noted_anew_as_committed(tmp_path: Path) -> None:
    noted = {"version": 1, "broker_id": 1, "cluster_id": "born"}
    (tmp_path / IDENTITY_FILE).write_text(json.dumps(noted))

    belong(tmp_path, claim(tmp_path, 1), "born")

    written = json.loads((tmp_path / IDENTITY_FILE).read_text())
    assert written.pop("crc32c")
    assert written == {**noted, "committed": True}


def test_damaged_identity_is_taken_from_the_metadata_where_there_is_some(tmp_path: Path) -> None:
    belong(tmp_path, claim(tmp_path, 1), "c")
    (tmp_path / METADATA_DIR).mkdir()
    (tmp_path / METADATA_DIR / "1.seg").write_bytes(b"")
    (tmp_path / IDENTITY_FILE).write_text("")

    identity = claim(tmp_path, 1)

    assert (identity.broker_id, identity.cluster_id) == (1, "")
    assert "is damaged: it is not valid JSON" in identity.damage
    assert (tmp_path / IDENTITY_FILE).read_text() == "", "until the metadata has named the cluster"
    assert belong(tmp_path, identity, "c") == claim(tmp_path, 1) == Identity(1, "c")


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 2, "broker_id": 1, "cluster_id": "c"}']
)
def test_an_identity_that_cannot_be_read_is_refused_not_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / IDENTITY_FILE).write_text(text)
    with pytest.raises(DataDirError, match=IDENTITY_FILE):
        claim(tmp_path, 1)
    assert (tmp_path / IDENTITY_FILE).read_text() == text


def test_no_flipped_bit_of_the_identity_is_believed(tmp_path: Path) -> None:
    """Each bit of the file: either it is refused with what to do, or it changed nothing."""
    belong(tmp_path, claim(tmp_path, 1), "first")
    path = tmp_path / IDENTITY_FILE
    whole = path.read_bytes()
    problems = []
    for at in range(len(whole) * 8):
        data = bytearray(whole)
        data[at // 8] ^= 1 << at % 8
        path.write_bytes(data)
        try:
            assert claim(tmp_path, 1) == Identity(1, "first"), bytes(data)
        except DataDirError as error:
            problems.append(str(error))
    assert len(problems) > 0.9 * len(whole) * 8
    for problem in problems:
        assert f"{path} is damaged: " in problem
        assert "Restore the file" in problem


def test_identity_of_an_older_version_is_read_and_gets_a_checksum(tmp_path: Path) -> None:
    noted = {"version": 1, "broker_id": 1, "cluster_id": "born", "committed": True}
    path = tmp_path / IDENTITY_FILE
    path.write_text(json.dumps(noted))

    assert claim(tmp_path, 1) == Identity(1, "born")

    path.write_text(path.read_text().replace("born", "bosn"))
    with pytest.raises(DataDirError, match="checksum does not match"):
        claim(tmp_path, 1)


def test_damage_to_the_identity_is_one_sentence_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / IDENTITY_FILE).write_text('{"version": 1, "brokes_id": 1, "cluster_id": "c"}')
    with pytest.raises(DataDirError, match=r"'broker_id' is missing\. Restore the file .*or, if"):
        claim(tmp_path, 1)

    (tmp_path / IDENTITY_FILE).write_text('{"version": 1, "broker_id": 1, "cluster_id": ""}')
    assert claim(tmp_path, 1) == Identity(1, "")
