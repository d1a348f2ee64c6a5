"""A shell that has read the lines of `josefine completion` is told verbs, commands and options."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import REPOSITORY, josefine


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("line", "expected"),
    [("josefine dash", "dashboard"), ("josefine topics cre", "create")],
)
def test_bash_completes_what_was_begun(line: str, expected: str, tmp_path: Path) -> None:
    command = tmp_path / "josefine"
    command.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from josefine_cli.main import main; main()' \"$@\"\n"
    )
    command.chmod(0o755)
    lines = josefine("", "completion", "bash").out
    function = next(word for word in lines.split() if word.endswith("()")).removesuffix("()")
    words = " ".join(line.split())
    script = (
        f'{lines}\nCOMP_WORDS=({words}); COMP_CWORD={len(line.split()) - 1}; COMP_LINE="{line}"\n'
        f'{function} josefine; echo "${{COMPREPLY[@]}}"'
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip

    assert done.stdout.split() == [expected], done.stderr
