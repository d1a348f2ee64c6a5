"""Errors of pipelines, each with an exit code and one clear message."""

from __future__ import annotations

from dataclasses import dataclass, field

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_BAD_CONFIG = 78
"""EX_CONFIG of sysexits.h: the file is wrong, running it again will not help."""
EXIT_ENVIRONMENT = 79
"""The file is fine, the machine is not: no Java, no jars, no broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a pipeline file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of a pipeline file. `path` is like `sinks.flights.mode`, "" at the top.

    `stops_run`: False for a warning with which a run continues, such as an unused transform.
    `about`: the path of the value that is missing, where `path` is that of the mapping above it.
    """

    place: Place
    path: str
    message: str
    stops_run: bool = True
    about: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.place}: {self.path + ': ' if self.path else ''}{self.message}"


CAUSE = "↳"
"""In front of each cause in delta-rs' texts, whose first line may be `Generic GCS error` alone."""


def first_line(error: Exception | str) -> str:
    """The first line of a library's error text with its causes, or the name of its class."""
    first, *more = str(error).strip().splitlines() or [type(error).__name__]
    causes = (line.partition(CAUSE)[2].replace("\x1b[0m", "") for line in more if CAUSE in line)
    return ": ".join(part.strip() for part in (first, *causes))


class PipelineError(Exception):
    """An error for users: its text is the whole message."""

    exit_code = EXIT_FAILED
    ends_run = False
    """Whether it ends the whole run, not only the sink that raised it."""


class WrongUsageError(PipelineError):
    """The command names something that the file does not have."""

    exit_code = EXIT_USAGE


class ConfigError(PipelineError):
    """The pipeline file is wrong; carries every problem found, once each and in file order."""

    exit_code = EXIT_BAD_CONFIG
    lines_are_places = True
    """Every line starts with a place in a file, so the first line must not get a prefix."""

    def __init__(self, problems: list[Problem]) -> None:
        known = dict.fromkeys(problems)
        self.problems = sorted(known, key=lambda p: (p.place.file, p.place.line, p.place.column))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class SetupError(PipelineError):
    """The machine lacks something that the pipeline needs."""

    exit_code = EXIT_ENVIRONMENT


class RunError(PipelineError):
    """The run could not continue."""


class TooManyLettersError(RunError):
    """Too many records of a source are dead letters; any of its sinks may raise it."""

    ends_run = True


class ChainError(RunError):
    """Table and batch, or table and checkpoint, do not fit together; a person has to decide."""
