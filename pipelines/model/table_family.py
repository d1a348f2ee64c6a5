"""A table family: the tables of one sink whose path has a placeholder, such as `lake/{topic}`.

The placeholder is `{topic}`, the topic of a row's record, or `{column}`, a column of the sink's
input. Letter case does not count in names: a catalog and some file systems fold it, so values that
differ only in case share a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

FAMILY = "delta_family"
"""The `type` of a sink with such a path."""
TOPIC = "topic"
NAME_CHARACTERS_MAX = 200
"""A folder's name has 255 bytes at most on most file systems; the template adds some."""
TABLES_MAX = 1_000
"""The default of `max_tables`."""
TABLES_LIMIT = 10_000
"""The maximum of `max_tables`: each commit of the sink lists all of its tables."""

_END = "(?![^x]|x)"
"""Nothing follows. `$` would also match before a last line feed, here and in Java."""
NAME_SQL = rf"^[A-Za-z0-9][A-Za-z0-9_.-]{{0,{NAME_CHARACTERS_MAX - 1}}}{_END}"
"""For Spark's RLIKE. A name has no separator, and `_` and `.` at its start hide a folder."""
_NAME = re.compile(NAME_SQL)
NAME_RULE = (
    f"1 to {NAME_CHARACTERS_MAX} of the characters a-z, A-Z, 0-9, `_`, `-` and `.`, the first one "
    "a letter or a digit"
)
_PLACEHOLDER = re.compile(r"\{([^{}/]*)\}")
_COLUMN = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFamily:
    """The template. A table's folder is `base/prefix + name + rest`; `rest` may have folders.

    `column`: the column of the sink's input that has the name; None for `{topic}`."""

    base: str
    prefix: str
    rest: str
    column: str | None
    tables_max: int = TABLES_MAX

    @property
    def by_topic(self) -> bool:
        """Whether each topic has its table."""
        return self.column is None

    @property
    def registry(self) -> str:
        """The folder of the table that registers the family's tables and the sink's offsets. A
        name never starts with `_`, so it cannot be one of them."""
        parts = [part for part in (self.prefix, self.rest.replace("/", "_")) if part]
        return "_".join([f"{self.base}/_josefine_tables", *parts])

    def path_of(self, name: str) -> str:
        """The folder of a table."""
        return f"{self.base}/{self.prefix}{name}{self.rest}"

    def may_make(self, folder: str) -> bool:
        """Whether a value could make a table that is this folder, is above it, or is in it."""
        below = folder.removeprefix(f"{self.base}/")
        if below == folder:
            return False
        name = rf"{re.escape(self.prefix)}[A-Za-z0-9][A-Za-z0-9_.-]*?"
        is_above = self.rest.startswith("/") and re.fullmatch(name, below) is not None
        return is_above or re.match(rf"{name}{re.escape(self.rest)}(/|\Z)", below) is not None


def why_no_place(source: str, missing: Iterable[str]) -> str:
    """The error for rows of `source` that do not name their records."""
    wanted = ", ".join(f"`{word}`" for word in missing)
    return (
        f"`{source}` does not name the record of a row, by which a table leaves out rows that it "
        f"has: select {wanted} there too"
    )


def name_of(value: str | None) -> str | None:
    """The name of the table for a value; None if the value is not a valid name."""
    return value.lower() if value is not None and _NAME.match(value) else None


def has_placeholder(path: str) -> bool:
    """Whether a path is a template."""
    return "{" in path or "}" in path


def family_of(path: str, tables_max: int = TABLES_MAX) -> TableFamily | str:
    """The family of an absolute path with a placeholder, or why it is not valid."""
    found = list(_PLACEHOLDER.finditer(path))
    if len(found) != 1 or path.count("{") != 1 or path.count("}") != 1:
        return "expected one placeholder, {topic} or {column}, such as lake/{topic}"
    match = found[0]
    column = match[1]
    if not _COLUMN.fullmatch(column):
        return f"`{{{column}}}` names no column: expected {{topic}} or {{column}}"
    base, _, prefix = path[: match.start()].rpartition("/")
    if prefix.startswith(("_", ".")):
        return f"names that start with `{prefix[0]}` are reserved: expected another prefix"
    return TableFamily(
        base=base,
        prefix=prefix,
        rest=path[match.end() :],
        column=None if column == TOPIC else column,
        tables_max=tables_max,
    )
