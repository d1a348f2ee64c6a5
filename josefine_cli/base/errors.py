"""The conversion of any exception to one sentence on stderr and an exit code: 2 for usage, 1 for
failure.

Rules: the user never sees a stack trace unless JOSEFINE_DEBUG is set; a closed pipe (`| head`) is
not reported; an exception of ours may have its own `exit_code`, and one with `lines_are_places` is
printed unchanged: every line of it starts with file:line:column.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

CLIENT_CONFIG = "JOSEFINE_CLIENT_CONFIG"
"""The variable with the file of a client's settings, unless the command line has one."""

COMPLETE = "_JOSEFINE_COMPLETE"
"""The variable with which a shell requests completions (see `josefine completion`)."""

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_SIGNAL = 128
"""Added to the number of the signal that ended a command, as in a shell."""
EXIT_INTERRUPTED = EXIT_SIGNAL + signal.SIGINT
EXIT_BROKEN_PIPE = EXIT_SIGNAL + signal.SIGPIPE

OUR_PACKAGES = ("josefine_", "pipelines", "pyspark_josefine", "raft")
"""Exceptions of these packages have a one-sentence message for the user."""

_NOT_A_NUMBER = re.compile(
    r"is not a valid (?:int range|integer|int)\b|is not a valid float(?: range)?\b"
)
"""click's words for an option's value that is not a number."""

_TWICE = re.compile(r"^(topic '[^']*'): (?=\1 )")
"""A topic name that occurs twice: from the client, and from the broker's message."""


class UserError(Exception):
    """A failure with a message for the user; exit code 1."""

    exit_code = EXIT_FAILURE


class UsageError(UserError):
    """The command line itself is wrong; exit code 2."""

    exit_code = EXIT_USAGE


def report(error: BaseException) -> int:
    """Print the error to stderr; returns the exit code. JOSEFINE_DEBUG adds the stack trace."""
    if isinstance(error, BrokenPipeError):
        return EXIT_BROKEN_PIPE
    if _is_interrupt(error):
        return EXIT_INTERRUPTED
    if type(error).__name__ == "Abort":  # click's or typer's: a question answered with no
        print("nothing done", file=sys.stderr)
        return EXIT_FAILURE
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help, or printed already
        print(error)
        return EXIT_USAGE
    if os.environ.get("JOSEFINE_DEBUG"):
        import traceback

        traceback.print_exception(error)
    text, code = explain(error)
    if getattr(error, "lines_are_places", False):
        print(text, file=sys.stderr)
        return code
    red, plain = ("\x1b[31m", "\x1b[0m") if _is_colourful() else ("", "")
    print(f"{red}error:{plain} {text}", file=sys.stderr)
    return code


def _is_interrupt(error: BaseException) -> bool:
    """The interpreter turns a KeyboardInterrupt inside the definition of a class, as in a first
    import, into a RuntimeError."""
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt)


def explain(error: BaseException) -> tuple[str, int]:
    """(sentence, exit code) of an exception."""
    from josefine_broker.base.errors import KafkaError

    if isinstance(error, KafkaError):
        text = error.message or error.code.name.replace("_", " ")
        return _TWICE.sub("", text), EXIT_FAILURE
    format_message = getattr(error, "format_message", None)
    if format_message is not None:
        # click's own, or the copy of click that newer typers carry: no common importable name.
        return _usage(error, str(format_message())), int(getattr(error, "exit_code", EXIT_USAGE))
    if type(error).__module__.startswith(OUR_PACKAGES):
        return str(error), int(getattr(error, "exit_code", EXIT_FAILURE))
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror.lower()}", EXIT_FAILURE
    if isinstance(error, ImportError) and (hidden := _hidden(error.name or "")):
        return hidden, EXIT_FAILURE
    if isinstance(error, ModuleNotFoundError):
        from josefine_broker.base.install_commands import not_installed

        return not_installed(error.name or "a module"), EXIT_FAILURE
    what = str(error).splitlines()[0] if str(error) else "no message"
    return (
        f"unexpected {type(error).__name__}: {what} (JOSEFINE_DEBUG=1 shows where)",
        EXIT_FAILURE,
    )


def _hidden(module: str) -> str | None:
    """The sentence about a user's package that has the name of one of ours; None: there is none.

    Only a clone's packages can be hidden (docs/decisions/0018): wheels have names of our own.
    """
    name = module.partition(".")[0]
    ours = Path(__file__).resolve().parents[2] / name
    found = next(iter(getattr(sys.modules.get(name), "__path__", ())), str(ours))
    if not name or not ours.is_dir() or Path(found).resolve() == ours:
        return None
    return (
        f"'{name}' is {found}, which hides Josefine's package of that name: start josefine outside "
        "of that folder and without it in PYTHONPATH, or install Josefine's wheels, whose names "
        "are their own"
    )


def _usage(error: BaseException, message: str) -> str:
    context = getattr(error, "ctx", None)
    # typer's prefix for a ValueError from a parameter's type.
    sentence = message.rstrip(".").replace("Value error, ", "")
    sentence = _NOT_A_NUMBER.sub(_whole_number, sentence)
    sentence = sentence[:1].lower() + sentence[1:] if not sentence[:2].isupper() else sentence
    if context is None:
        return sentence
    return f"{sentence} (see '{context.command_path} --help')"


def _whole_number(found: re.Match[str]) -> str:
    return "is not a number" if "float" in found[0] else "is not a whole number"


def _is_colourful() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ
