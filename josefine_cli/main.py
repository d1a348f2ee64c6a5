"""The entry point of the `josefine` command.

Every user error ends here as one sentence on stderr and a non-zero exit code, never a stack trace.
This module imports only what the interpreter has loaded already, so that Ctrl-C is handled from its
first line on: a trace would come of one that arrives while modules are being loaded.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` is among the slow ones
if TYPE_CHECKING:
    from collections.abc import Sequence

ENDED_BY_SIGNAL = 128
"""Exit codes above it are those of signals."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0, 1 (failure), 2 (usage) or a signal's 128 + n."""
    _fill_closed_streams()
    code = run(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_after_flushing(code))


def _fill_closed_streams() -> None:
    """Open the null device for closed standard streams, so that no socket or file gets their
    numbers and output to a closed stderr does not reach stdout. `sys.stdin` and `sys.stdout` stay
    None: a verb that needs one of them reports that it is closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:  # typeshed does not know
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def run(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    try:
        from josefine_cli.base.errors import COMPLETE
        from josefine_cli.base.lazy_import import nothing_collected

        with nothing_collected():
            import typer.main

            from josefine_cli.verbs import app

            command = typer.main.get_command(app)
            if COMPLETE in os.environ:
                from typer.completion import completion_init  # type: ignore[attr-defined]

                completion_init()
        code = command.main(list(arguments), prog_name="josefine", standalone_mode=False)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except (Exception, KeyboardInterrupt) as error:
        return _reported(error)
    return code if isinstance(code, int) else 0


def _after_flushing(code: int) -> int:
    """Flush stdout now, while its errors can still be reported, or ignored for a closed pipe.

    A command that a signal has ended does not wait for the reader of a full pipe, and Ctrl-C ends
    the wait of any other. stdout is None if the parent process closed it, which typeshed does not
    know.
    """
    if sys.stdout is None:
        return code
    import signal

    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # its exception would end as a stack trace
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        _flush(waits=code <= ENDED_BY_SIGNAL)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code or _reported(error)
    finally:
        if handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, handler)
    return code


def _flush(*, waits: bool) -> None:
    """Other processes may write to the same pipe, so it blocks again afterwards."""
    if waits:
        sys.stdout.flush()
        return
    os.set_blocking(sys.stdout.fileno(), False)
    try:
        sys.stdout.flush()
    finally:
        os.set_blocking(sys.stdout.fileno(), True)


def _reported(error: BaseException) -> int:
    """The exit code of an error that is printed now."""
    from josefine_cli.base import errors

    return errors.report(error)


if __name__ == "__main__":
    main()
