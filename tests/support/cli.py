"""The `josefine` command for tests: run in this process, or as a process of its own.

In this process it is a hundred times quicker; a process is for what only one can show: pipes that
close, signals.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from josefine_cli.base import waiting
from josefine_cli.main import run
from tests.support.processes import ChildProcess

REPOSITORY = Path(__file__).resolve().parents[2]
FIRST_S = waiting.FIRST_S
QUIET_S = 3_600.0
"""A command of a test that nothing hurries prints no note of a long wait: on a busy machine it
would be in the stderr of any command."""
COMMAND = (
    sys.executable,
    "-c",
    f"from josefine_cli.base import waiting; waiting.FIRST_S = {QUIET_S};"
    "from josefine_cli.main import main; main()",
)


class Done(NamedTuple):
    code: int
    out: str
    err: str


def environment(bootstrap: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "JOSEFINE_BOOTSTRAP": bootstrap}


def josefine(bootstrap: str, *arguments: str, stdin: str | bytes = "") -> Done:
    """Run to the end in this process, nothing on a terminal. Bytes that are no UTF-8 come back
    as surrogate escapes."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    is_hurried = waiting.FIRST_S < FIRST_S
    with (
        mock.patch.object(waiting, "FIRST_S", waiting.FIRST_S if is_hurried else QUIET_S),
        mock.patch.dict(os.environ, {"JOSEFINE_BOOTSTRAP": bootstrap}),
        _stream("stdin", given),
        _stream("stdout") as out,
        _stream("stderr") as err,
    ):
        code = run(arguments)
        return Done(code, _text(out), _text(err))


@contextlib.contextmanager
def _stream(name: str, content: bytes = b"") -> Iterator[io.TextIOWrapper]:
    stream = io.TextIOWrapper(io.BytesIO(content), "utf-8", "surrogateescape", newline="")
    with mock.patch.object(sys, name, stream):
        yield stream


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8", "surrogateescape")


def josefine_process(bootstrap: str, *arguments: str) -> ChildProcess:
    """A process of its own with its three streams piped."""
    return ChildProcess(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(bootstrap),
    )
