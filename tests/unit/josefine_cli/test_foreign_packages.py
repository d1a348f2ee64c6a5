"""A clone's packages `pipelines` and `raft` have names that a user's repository may have too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RUN = "import sys; from josefine_cli.main import run; sys.exit(run(sys.argv[1:]))"


@pytest.mark.parametrize(
    ("name", "command"),
    [("pipelines", ("pipeline", "lint", "a.yaml")), ("raft", ("broker", "--data-dir", "data"))],
)
def test_a_foreign_package_that_hides_ours_is_named_with_its_folder_and_a_way_out(
    tmp_path: Path, name: str, command: tuple[str, ...]
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()

    done = subprocess.run(
        [sys.executable, "-c", RUN, *command],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert done.stderr == (
        f"error: '{name}' is {tmp_path / name}, which hides Josefine's package of that name: start "
        "josefine outside of that folder and without it in PYTHONPATH, or install Josefine's "
        "wheels, whose names are their own\n"
    )
