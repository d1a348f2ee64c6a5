"""What users run loads no test library, also where one is installed: Hypothesis writes a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
TEST_LIBRARIES = ("hypothesis", "pytest", "_pytest")


@pytest.mark.parametrize(
    "code",
    [
        "import josefine_broker.main",
        "import josefine_spark.read.task_reader",
        "from josefine_cli.main import run; run(['topics', '--help'])",
        "from josefine_cli.main import run; run(['cluster', '--help'])",
        # A whole round of reading and writing: the schemas of each version are loaded when used.
        "from josefine_broker.wire import apis, versions; versions.request_plan(3, 12)",
    ],
)
def test_no_command_loads_a_test_library_or_writes_where_it_stands(
    tmp_path: Path, code: str
) -> None:
    code += "\nimport sys; print('loaded:', *sorted({each.split('.')[0] for each in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )

    loaded = done.stdout.rpartition("loaded: ")[2].split()
    assert "kio" in loaded
    assert [each for each in TEST_LIBRARIES if each in loaded] == []
    assert list(tmp_path.iterdir()) == []
