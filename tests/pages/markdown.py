"""Markdown that generators share: tables and cells."""

from collections.abc import Iterable, Iterator


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """The lines of a table."""
    columns = tuple(head)
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def cell(text: str) -> str:
    """A text as it may be in a table: one line, no bar, no tag."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
