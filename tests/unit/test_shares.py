"""A day has a share of the long proofs, and all days together have all of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.shares import daily_of

ROOT = Path(__file__).resolve().parents[2]
CASES = [f"test_a[{n}]" for n in range(10)]


@pytest.mark.parametrize("share", [1, 3, 4, 10, 25])
def test_seeds_together_take_every_case_once(share: int) -> None:
    taken = [case for seed in range(min(share, 10)) for case in daily_of(CASES, share, seed)]

    assert sorted(taken) == CASES


def test_share_is_never_empty() -> None:
    assert all(daily_of(CASES[:2], 25, seed) for seed in range(50))


def test_cases_outside_the_share_are_slow_whatever_the_order(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.long_proof(share=4)\n"
        "@pytest.mark.parametrize('n', range(8))\n"
        "def test_it(n): pass\n"
        "@pytest.mark.long_proof(share=2, among='both')\n"
        "def test_one(): pass\n"
        "@pytest.mark.long_proof(share=2, among='both')\n"
        "def test_other(): pass\n"
        "def test_short(): pass\n"
    )

    def collected(*arguments: str) -> set[str]:
        line = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-c", "pyproject.toml"]
        line += ["--rootdir", str(ROOT), str(tmp_path), *arguments]
        said = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return {each.rpartition("::")[2] for each in said.splitlines() if "::" in each}

    assert collected("-p", "no:randomly") == {
        "test_it[0]",
        "test_it[4]",
        "test_one",
        "test_short",
    }
    assert collected("-p", "randomly", "-p", "no:cacheprovider", "--share-seed=1") == {
        "test_it[1]",
        "test_it[5]",
        "test_other",
        "test_short",
    }
    assert len(collected("-m", "slow")) == 7
