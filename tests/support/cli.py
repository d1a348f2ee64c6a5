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
from typing import Any, NamedTuple
from unittest import mock

from josefine_cli.base import waiting
from josefine_cli.main import run

REPOSITORY = Path(__file__).resolve().parents[2]
FIRST_S = waiting.FIRST_S
QUIET_S = 3_600.0
"""A command of a test that nothing hurries prints no note of a long wait: on a busy machine it would
be in the stderr of any command."""
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


class JosefineProcess(subprocess.Popen[str]):
    """A `with` block that fails kills it, and shows what it wrote to stderr with the failure."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: Any
    ) -> None:
        if error is not None:
            self.kill()
            self.wait()
            error.add_note(f"exit code {self.returncode}, stderr: {self._unread_stderr()}")
        super().__exit__(kind, error, at)

    def _unread_stderr(self) -> str:
        assert self.stderr is not None
        os.set_blocking(self.stderr.fileno(), False)  # a child of its own may hold the other end
        with contextlib.suppress(BlockingIOError):
            return os.read(self.stderr.fileno(), 64 * 1024).decode("utf-8", "replace")
        return ""


def josefine_process(bootstrap: str, *arguments: str) -> JosefineProcess:
    """A process of its own with its three streams piped."""
    return JosefineProcess(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(bootstrap),
    )
