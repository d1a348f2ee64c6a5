"""Files through Hadoop: the same text whatever its size, and no error for what is not there."""

from __future__ import annotations

import pytest

from pipelines.spark.files import PIECE_BYTES, PIECES_MAX, HadoopFiles
from tests.unit.pipelines.local_hadoop import LocalHadoop

LARGEST = PIECE_BYTES * PIECES_MAX


@pytest.mark.parametrize(
    ("size", "calls"),
    [
        (0, 1), (PIECE_BYTES - 1, 1), (PIECE_BYTES, 2), (PIECE_BYTES + 1, 2),
        (LARGEST - 1, PIECES_MAX), (LARGEST, PIECES_MAX + 1), (LARGEST * 3, PIECES_MAX + 1),
    ],
)  # fmt: skip
def test_a_file_is_read_whole_in_a_few_calls(tmp_path, size, calls):
    text = ("é" + "0123456789" * (size // 10 + 1)).encode()[:size].decode(errors="ignore")
    text += "x" * (size - len(text.encode()))
    hadoop = LocalHadoop()
    files = HadoopFiles(hadoop)

    files.write_text(f"{tmp_path}/f", text)

    assert files.read_text(f"{tmp_path}/f") == text
    assert len(hadoop.reads) == calls


def test_what_is_not_there_is_none_or_empty(tmp_path):
    files = HadoopFiles(LocalHadoop())

    assert files.read_text(f"{tmp_path}/f") is None
    assert files.names(f"{tmp_path}/f") == []
    assert not files.exists(f"{tmp_path}/f")


def test_a_folder_is_renamed_unless_the_new_name_is_taken(tmp_path):
    files = HadoopFiles(LocalHadoop())
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").touch()
    (tmp_path / "taken").mkdir()

    with pytest.raises(OSError, match=r"a cannot be renamed to .*/taken"):
        files.rename(f"{tmp_path}/a", f"{tmp_path}/taken")
    files.rename(f"{tmp_path}/a", f"{tmp_path}/b")

    assert files.names(f"{tmp_path}/b") == ["x"]
    files.remove(f"{tmp_path}/b/x")
    assert files.names(f"{tmp_path}/b") == []
