"""Translation of Spark's SQL errors to one sentence with the line of the pipeline file."""

from __future__ import annotations

import re

from pipelines.base.errors import ConfigError, Place, Problem

_NO_TABLE = re.compile(r"^\[TABLE_OR_VIEW_NOT_FOUND\] The table or view (`\S+`) cannot be found")
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\] ")
_SENTENCE_END = re.compile(r"\.\s+(?=[A-Z])")


def complaint(
    place: Place, path: str, error: Exception, tables: tuple[str, ...] = ()
) -> ConfigError:
    """Spark's error about a value of the file. `tables`: those that its SQL may name."""
    return refusal(place, path, in_short(str(error), tables))


def refusal(place: Place, path: str, message: str) -> ConfigError:
    """One problem with a value of the file."""
    return ConfigError([Problem(place=place, path=path, message=message)])


def in_short(text: str, tables: tuple[str, ...] = ()) -> str:
    """Spark's error text without stack trace, codes and advice: one sentence and its suggestion."""
    text = " ".join(re.split(r"\nJVM stacktrace|; line |\n\n== SQL", text)[0].split())
    missing = _NO_TABLE.search(text)
    if missing and tables:
        there = ", ".join(f"`{name}`" for name in tables)
        return f"no table {missing[1]}; there {'is' if len(tables) == 1 else 'are'} {there}"
    text = _CONDITION.sub("", text.split(" SQLSTATE: ")[0])
    first, *more = _SENTENCE_END.split(text)
    suggestion = next((one for one in more if one.startswith("Did you mean")), "")
    return (f"{first}. {suggestion}" if suggestion else first).rstrip(";. ")
