"""The folder in which a stream's process looks for what was sent to the driver."""

from __future__ import annotations

from pathlib import Path

from josefine_spark.base.sent_files import STREAM_FOLDER, link_for_streams


def test_a_stream_finds_what_was_sent_before_and_what_is_sent_later(tmp_path: Path) -> None:
    (tmp_path / "before.zip").touch()

    link_for_streams(tmp_path)
    (tmp_path / "later.zip").touch()

    assert (tmp_path / STREAM_FOLDER / "before.zip").exists()
    assert (tmp_path / STREAM_FOLDER / "later.zip").exists()


def test_a_folder_of_that_name_stays_as_it_is(tmp_path: Path) -> None:
    there = tmp_path / STREAM_FOLDER / "there"
    there.mkdir(parents=True)

    link_for_streams(tmp_path)

    assert there.is_dir()
    assert not (tmp_path / STREAM_FOLDER).is_symlink()


def test_a_second_link_is_not_needed(tmp_path: Path) -> None:
    link_for_streams(tmp_path)
    link_for_streams(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == [STREAM_FOLDER]
