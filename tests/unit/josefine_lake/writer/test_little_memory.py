"""The settings of memory come before Arrow is loaded: its C++ functions choose their pool once."""

from __future__ import annotations

import os
import subprocess
import sys

from josefine_lake.writer.little_memory import POOL
from tests.support.cli import REPOSITORY

CODE = f"""
import os, sys
import josefine_cli.archive.command, josefine_cli.sql.command, josefine_cli.tables.command
from josefine_lake.writer import failpoints
from josefine_lake.writer.little_memory import use_little_memory
assert "pyarrow" not in sys.modules
use_little_memory(os.environ)
import pyarrow
print(os.environ["{POOL}"], pyarrow.default_memory_pool().backend_name)
"""


def pools(**env: str) -> list[str]:
    """The pools of a new process by its environment and by Arrow."""
    inherited = {name: each for name, each in os.environ.items() if name != POOL}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env={**inherited, "PYTHONPATH": str(REPOSITORY), **env},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_a_writer_uses_the_systems_pool_unless_the_environment_has_another() -> None:
    assert pools() == ["system", "system"]
    assert pools(**{POOL: "mimalloc"}) == ["mimalloc", "mimalloc"]
