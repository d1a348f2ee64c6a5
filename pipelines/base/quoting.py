"""Column names as SQL writes them: any name, in backticks."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(name: str) -> str:
    """One name, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def unquoted(text: str) -> str:
    """The name that SQL means: without its backticks, if it has some."""
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def quoted_path(path: Iterable[str]) -> str:
    """A column, or a field of it: each name quoted, with dots between."""
    return ".".join(quoted(name) for name in path)


def delta_table(path: str) -> str:
    """A Delta table in SQL, by its folder."""
    return f"delta.{quoted(path)}"
