"""The rows in which two versions of a table differ: by key, or as a multiset without keys.

Spark groups the rows of both sides by all of their columns, so nothing is collected but counts and
a few examples, and what does not fit into memory goes to disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipelines.base.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EXAMPLES = 3
_OLD, _NEW = "_josefine_old", "_josefine_new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A row as JSON on each side; None where that side has none."""

    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDiff:
    """The difference of a sink's rows. `changed` is 0 without keys."""

    sink: str
    keys: tuple[str, ...]
    old_rows: int
    new_rows: int
    added: int
    removed: int
    changed: int
    left_out: tuple[str, ...] = ()
    """Columns that only one side has."""
    examples: tuple[Example, ...] = field(default=())

    @property
    def is_same(self) -> bool:
        return not (self.added or self.removed or self.changed)

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        yield f"{self.sink}: {self.old_rows:,} rows -> {self.new_rows:,} rows{by}"
        if self.is_same:
            yield "    the same rows"
        else:
            changed = f", {self.changed:,} changed" if self.keys else ""
            yield f"    {self.added:,} added, {self.removed:,} removed{changed}"
        if self.left_out:
            yield f"    not compared, because only one side has them: {', '.join(self.left_out)}"
        for each in self.examples:
            if each.old is not None:
                yield f"    - {each.old}"
            if each.new is not None:
                yield f"    + {each.new}"

    def to_json(self) -> dict[str, Any]:
        return {
            "sink": self.sink,
            "keys": list(self.keys),
            "old_rows": self.old_rows,
            "new_rows": self.new_rows,
            "added": self.added,
            "removed": self.removed,
            "changed": self.changed,
            "not_compared": list(self.left_out),
            "examples": [{"old": each.old, "new": each.new} for each in self.examples],
        }


def diff_rows(
    spark: SparkSession, sink: str, live: str, version: int, shadow: str, keys: Sequence[str]
) -> RowDiff:
    """Compare the live table at a version with its shadow, by the keys that both have."""
    from pyspark.sql import functions as F  # noqa: N812

    old = spark.read.format("delta").option("versionAsOf", version).load(live)
    new = spark.read.format("delta").load(shadow)
    # Columns of one side alone would make every row differ.
    both, left_out = _common(old, new)
    by = tuple(key for key in keys if key.lower() in both)
    if len(by) < len(keys):
        by = ()
    differs = _sides(old, new, both).where(f"{_OLD} != {_NEW}")
    more, fewer = F.col(_NEW) - F.col(_OLD), F.col(_OLD) - F.col(_NEW)
    rows = differs.withColumns({"m": F.greatest(more, F.lit(0)), "f": F.greatest(fewer, F.lit(0))})
    names = [name for name, _ in both.values()]
    text = F.to_json(F.struct(*map(F.col, map(quoted, names))), {"ignoreNullFields": "false"})
    if by:
        rows = rows.withColumn("_row", text)
        rows = rows.groupBy(*(F.col(quoted(both[key.lower()][0])) for key in by)).agg(
            F.sum("m").alias("m"),
            F.sum("f").alias("f"),
            F.min(F.when(F.col("m") > 0, F.col("_row"))).alias("_after"),
            F.min(F.when(F.col("f") > 0, F.col("_row"))).alias("_before"),
        )
    else:
        after, before = F.when(F.col("m") > 0, text), F.when(F.col("f") > 0, text)
        rows = rows.select("m", "f", after.alias("_after"), before.alias("_before"))
    rows = rows.persist()
    try:
        added, removed, changed = _counts(rows, by_key=bool(by))
        examples = _examples(rows)
    finally:
        rows.unpersist()
    return RowDiff(
        sink=sink,
        keys=by,
        old_rows=old.count(),
        new_rows=new.count(),
        added=added,
        removed=removed,
        changed=changed,
        left_out=left_out,
        examples=examples,
    )


def _common(old: DataFrame, new: DataFrame) -> tuple[dict[str, tuple[str, bool]], tuple[str, ...]]:
    """(lower-case name → (the new side's name, whether to compare as texts), the others)."""
    before = {field.name.lower(): field for field in old.schema.fields}
    after = {field.name.lower(): field for field in new.schema.fields}
    both = {
        name: (one.name, one.dataType != before[name].dataType)
        for name, one in after.items()
        if name in before
    }
    alone = [one.name for name, one in {**before, **after}.items() if name not in both]
    return both, tuple(alone)


def _sides(old: DataFrame, new: DataFrame, both: dict[str, tuple[str, bool]]) -> DataFrame:
    """Each distinct row with the number of times that either side has it."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    def column(frame: DataFrame, name: str, as_text: bool) -> Column:
        kind = frame.schema[_cased(frame, name)].dataType
        value = F.col(quoted(name))
        # Maps have no order to group by; a struct may contain one.
        is_nested = isinstance(kind, (ArrayType, MapType, StructType, VariantType))
        if is_nested:
            value = F.to_json(value)
        elif as_text:
            value = value.cast("string")
        return value.alias(name)

    def side(frame: DataFrame, is_old: int) -> DataFrame:
        columns = [column(frame, name, as_text) for name, as_text in both.values()]
        flags = [F.lit(is_old).alias(_OLD), F.lit(1 - is_old).alias(_NEW)]
        return frame.select(*columns, *flags)

    names = [F.col(quoted(name)) for name, _ in both.values()]
    rows = side(old, 1).unionByName(side(new, 0))
    return rows.groupBy(*names).agg(F.sum(_OLD).alias(_OLD), F.sum(_NEW).alias(_NEW))


def _cased(frame: DataFrame, name: str) -> str:
    return next(each for each in frame.columns if each.lower() == name.lower())


def _counts(rows: DataFrame, *, by_key: bool) -> tuple[int, int, int]:
    """(added, removed, changed)."""
    from pyspark.sql import functions as F  # noqa: N812

    if not by_key:
        found = rows.agg(F.sum("m"), F.sum("f")).first()
        assert found is not None
        return int(found[0] or 0), int(found[1] or 0), 0
    kinds = (F.col("f") == 0, F.col("m") == 0, (F.col("m") > 0) & (F.col("f") > 0))
    found = rows.agg(*(F.count_if(kind) for kind in kinds)).first()
    assert found is not None
    return int(found[0]), int(found[1]), int(found[2])


def _examples(rows: DataFrame) -> tuple[Example, ...]:
    """A few of each kind, in one job."""
    kinds = ("m > 0 and f > 0", "f = 0", "m = 0")
    some = [rows.where(kind).select("_before", "_after").limit(EXAMPLES) for kind in kinds]
    found = some[0].unionAll(some[1]).unionAll(some[2]).collect()
    return tuple(Example(old=row[0], new=row[1]) for row in found)
