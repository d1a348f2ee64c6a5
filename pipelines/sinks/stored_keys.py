"""What a Delta table stores for a key. A merge misses the rows whose key differs from it.

Delta changes some texts as it stores them:

- an empty text in a partition column of type STRING becomes null (Hive's partition paths),
  also of type CHAR;
- CHAR(n) is padded with spaces to n characters. A text that is longer fails the write, for CHAR
  and VARCHAR alike, also if only spaces are beyond n.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.base.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata of a column in which Spark keeps `char(n)` and `varchar(n)`; its type is STRING."""


def changes(
    fields: Sequence[Mapping[str, Any]], partitioned_by: Collection[str], keys: Collection[str]
) -> dict[str, str]:
    """Key in lower case → SQL of what the table stores for it, where that is not always the key.

    `fields`: the table's schema as `StructType.jsonValue` gives it.
    """
    wanted, parts = ({name.lower() for name in names} for names in (keys, partitioned_by))
    found = {}
    for field in fields:
        name = field["name"].lower()
        if name not in wanted:
            continue
        sql = column = quoted(field["name"])
        declared = str(field.get("metadata", {}).get(_DECLARED, field["type"]))
        if name in parts and field["type"] == "string":
            sql = f"nullif({sql}, '')"
        if length := re.fullmatch(r"char\((\d+)\)", declared):
            sql = f"rpad({sql}, greatest({length[1]}, length({column})), ' ')"
        if sql != column:
            found[name] = sql
    return found


def as_stored(made: DataFrame, changed: Mapping[str, str]) -> DataFrame:
    """Rows with their keys as the table stores them; `changed` is that of `changes`."""
    from pyspark.sql import functions as F  # noqa: N812

    there = {name: changed[name.lower()] for name in made.columns if name.lower() in changed}
    return made.withColumns({name: F.expr(sql) for name, sql in there.items()}) if there else made
