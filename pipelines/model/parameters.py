"""Named parameters of SQL: `:name` in a text, and the values of the file's `params`.

Each is replaced by a literal of the type that Spark would bind it with: `bound`. Spark's own
binding, `spark.sql(text, args)`, takes no expressions, such as a check's, and drops the values if
Delta's parser is installed (delta-io/delta issue 7640: since Spark 4.1 an injected parser has to
pass them on). The literal of a text that could be taken for anything else is written as bytes, so
that no value can end it, whether a backslash escapes or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

Value = str | int | float | bool

_PLAIN = re.compile(r"[A-Za-z0-9 _.,:/@%+-]*")
_TOKEN = re.compile(
    r"""--[^\n]* | /\*.*?(\*/|\Z) | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` | ::
    | (?<![\w)\]]):(?P<name>[A-Za-z_]\w*)""",
    re.VERBOSE | re.DOTALL,
)
"""Comments, texts, quoted names and casts are passed over. `a:b` is a type's field."""


def names_in(sql: str) -> Iterator[tuple[int, str]]:
    """(index of the colon, name) of each parameter of a text."""
    for match in _TOKEN.finditer(sql):
        if match["name"]:
            yield match.start(), match["name"]


def bound(sql: str, values: Mapping[str, Value]) -> str:
    """The text with a literal for each known parameter."""

    def replaced(match: re.Match[str]) -> str:
        name = match["name"]
        return literal(values[name]) if name and name in values else match[0]

    return _TOKEN.sub(replaced, sql) if values else sql


def literal(value: Value) -> str:
    """The SQL literal of a value, of the type that Spark binds it with."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"({value!r}D)"
    if isinstance(value, int):
        return f"({value})"
    if _PLAIN.fullmatch(value):
        return f"'{value}'"
    return f"CAST(X'{value.encode().hex()}' AS STRING)"
