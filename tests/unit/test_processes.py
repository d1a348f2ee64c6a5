"""A child process of a test ends with it, and its stderr is shown if the test fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.processes import ChildProcess, children_of_a_test

TALKS = "import sys; sys.stderr.write('disk is full'); sys.stderr.flush(); print('!', flush=True);"
PIPE = subprocess.PIPE


def talking(rest: str) -> ChildProcess:
    child = ChildProcess([sys.executable, "-c", TALKS + rest], stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == "!\n"
    return child


def notes(rest: str, body: Callable[[ChildProcess], object]) -> list[str]:
    """What the error of a test shows that starts a process and fails after `body`."""

    def test() -> None:
        with children_of_a_test():
            body(talking(rest))
            raise AssertionError("what the test waits for")

    with pytest.raises(AssertionError, match="waits for") as raised:
        test()
    return raised.value.__notes__


def fails_within(child: ChildProcess) -> None:
    with child:
        raise AssertionError("what the block waits for")


@pytest.mark.parametrize("body", [ChildProcess.poll, fails_within])
def test_a_test_that_fails_kills_its_process_and_shows_its_stderr(
    body: Callable[[ChildProcess], object],
) -> None:
    (note,) = notes("input()", body)

    assert note.endswith("killed as it still ran, unread stderr: disk is full")


def test_the_exit_code_of_a_process_that_has_ended_is_shown() -> None:
    (note,) = notes("sys.exit(3)", lambda child: child.wait(60))

    assert note.endswith("exit code 3, unread stderr: disk is full")


def test_stderr_that_the_test_has_read_is_no_other_failure() -> None:
    (note,) = notes("sys.exit()", lambda child: child.communicate(timeout=60))

    assert note.endswith("unread stderr: not kept")


def test_a_test_that_passes_leaves_no_process_but_those_of_its_fixtures() -> None:
    with children_of_a_test():
        of_a_fixture = talking("input()")
        with children_of_a_test():
            left = talking("input()")

        assert (left.poll() is None, of_a_fixture.poll()) == (False, None)
