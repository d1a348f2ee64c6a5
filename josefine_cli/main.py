"""The `josefine` command's front door.

Every user error ends here as one sentence on stderr and a non-zero exit, never a stack trace. This
module imports nothing that takes time: a Ctrl-C while the verbs are loaded finds its handler.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from josefine_cli.base import errors
from josefine_cli.base.lazy_import import nothing_collected


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0, 1 (failure), 2 (usage) or a signal's 128 + n."""
    _fill_closed_streams()
    code = run(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_after_flushing(code))


def _fill_closed_streams() -> None:
    """Whoever started this may have closed some of the three: no socket or file shall get their
    numbers, and what is said on a closed stderr goes nowhere, not to stdout. A verb that needs the
    input or the output says that it is closed: `sys.stdin` and `sys.stdout` stay None."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:  # typeshed does not know
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def run(arguments: Sequence[str]) -> int:
    """Run the command line; the exit code."""
    try:
        with nothing_collected():
            import typer.main

            from josefine_cli.verbs import app

            command = typer.main.get_command(app)
            if errors.COMPLETE in os.environ:
                from typer.completion import completion_init  # type: ignore[attr-defined]

                completion_init()
        code = command.main(list(arguments), prog_name="josefine", standalone_mode=False)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else errors.EXIT_FAILURE
    except (Exception, KeyboardInterrupt) as error:
        return errors.report(error)
    return code if isinstance(code, int) else 0


def _after_flushing(code: int) -> int:
    """Flush stdout now, while its errors can still be told, or passed over in silence.

    It is None when whoever started this closed it, though typeshed does not know.
    """
    if sys.stdout is None:
        return code
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code or errors.report(error)
    return code


if __name__ == "__main__":
    main()
