"""Kills at the seam of archive and log: a small form of `tests/proofs/archive_kills.py`."""

from pathlib import Path

import pytest

from tests.proofs.archive_kills import prove


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_of_each_process_lose_and_double_nothing_for_a_reader_from_earliest(
    tmp_path: Path,
) -> None:
    assert prove(tmp_path, kills=6, seed=2).startswith("held: 6 kills")
