"""docs/how-to/security.md: what it tells to type is typed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import REPOSITORY
from tests.support.ports import free_ports

pytestmark = pytest.mark.timeout(240)


def test_five_minutes_of_tls(tmp_path: Path) -> None:
    """With other ports, and with our command whether it is installed or not."""
    page = (REPOSITORY / "docs/how-to/security.md").read_text()
    (lines,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    for port, free in zip(("9093", "9092", "9192"), free_ports(3), strict=True):
        assert port in lines
        lines = lines.replace(port, str(free))
    command = tmp_path / "bin" / "josefine"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m josefine_cli.main "$@"\n')
    command.chmod(0o755)
    (tmp_path / "here").mkdir()

    done = subprocess.run(
        ["bash", "-e", "-c", lines],
        cwd=tmp_path / "here",
        env={
            **os.environ,
            "PATH": f"{command.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "JOSEFINE__ADMIN__ADDRESS": "127.0.0.1:0",
        },
        capture_output=True,
        text=True,
        timeout=200,
    )

    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout
