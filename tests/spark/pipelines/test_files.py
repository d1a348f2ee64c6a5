"""Files through Hadoop's file systems come back as they are."""

from __future__ import annotations

import pytest

from pipelines.spark.files import PIECE_BYTES, PIECES_MAX, HadoopFiles

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

LARGE = PIECE_BYTES * PIECES_MAX


def test_a_file_of_any_length_is_read_whole(files: HadoopFiles, tmp_path):
    """In pieces, and what is left at once; a piece may end within a character."""
    for size in (0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, LARGE - 1, LARGE, 3 * LARGE):
        text = ("ü€" * size)[: size // 2] + "x" * (size % 2)
        path = str(tmp_path / f"{size}")
        files.write_text(path, text)

        assert files.read_text(path) == text
    assert files.read_text(str(tmp_path / "none")) is None
