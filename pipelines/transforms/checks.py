"""Checks of a batch over Spark's frames: count rows, leave rows out, make dead letters, stop.

A row passes if the condition is true, so null fails. All checks of a node see its rows as its SQL
made them, whatever the other checks leave out.

Rules: everything is counted and judged before anything of the batch is written. A record that is
left out as a dead letter is among the dead letters, also when its row names another record.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pipelines.base.errors import RunError
from pipelines.base.plurals import counted
from pipelines.formats.decode import headers_of
from pipelines.model.pipeline import Action, Check

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RECORD = {"topic": "string", "partition": "int", "offset": "bigint"}
"""The key of a record: columns that a row must have for its record to become a dead letter."""
_BY_TIME_OR_CHANCE = re.compile(
    r"\b(current_timestamp|current_date|localtimestamp|now|rand|randn|uuid)\(", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The number of rows that a check tested, and the number that failed it."""

    rows: int = 0
    failed: int = 0

    def __add__(self, other: Checked) -> Checked:
        return Checked(rows=self.rows + other.rows, failed=self.failed + other.failed)

    def to_json(self) -> dict[str, int]:
        """As it is in the commit and in `--json`."""
        return {"rows": self.rows, "failed": self.failed}


def failing(check: Check) -> Column:
    """A column that is true for rows that fail the check."""
    from pyspark.sql import functions as F  # noqa: N812

    return ~F.coalesce(F.expr(check.expr.bound), F.lit(False))


def kept(frame: DataFrame, checks: Iterable[Check]) -> DataFrame:
    """A node's rows without those that its checks leave out."""
    out = [failing(check) for check in checks if check.leaves_out]
    return frame.where(~reduce(lambda one, other: one | other, out)) if out else frame


def count(nodes: Mapping[str, DataFrame], checks: Sequence[Check]) -> dict[str, Checked]:
    """Check → its counts, by one pass over each node's rows before its checks."""
    from pyspark.sql import functions as F  # noqa: N812

    counts: DataFrame | None = None
    for node, frame in nodes.items():
        here = [check for check in checks if check.on == node]
        if not here:
            continue
        bad = F.array(*[F.sum(failing(check).cast("bigint")) for check in here])
        names = F.array(*[F.lit(check.name) for check in here])
        one = frame.agg(names.alias("names"), F.count(F.lit(1)).alias("rows"), bad.alias("bad"))
        counts = one if counts is None else counts.unionByName(one)
    if counts is None:
        return {}
    return {
        name: Checked(rows=row.rows, failed=failed or 0)
        for row in counts.collect()
        for name, failed in zip(row.names, row.bad, strict=True)
    }


def judge(sink: str, checks: Iterable[Check], found: Mapping[str, Checked]) -> None:
    """Raise RunError when a batch must not be written."""
    for check in checks:
        so_many = found.get(check.name, Checked())
        reason = why_refused(check, so_many)
        if reason:
            raise RunError(f"sink `{sink}`: {reason}")


def why_refused(check: Check, found: Checked) -> str:
    """Why a batch with these counts must not be written; "" when it may."""
    of = f"{found.failed:,} of {counted(found.rows, 'row')} of `{check.on}`"
    what = f"check `{check.name}` ({check.expr.text}): {of} fail it"
    ending = "nothing of this batch was written"
    if check.action is Action.FAIL and found.failed:
        return f"{what}; {ending} (action: fail)"
    if check.ratio_max is not None and found.failed > check.ratio_max * found.rows:
        return f"{what}, more than max_ratio {check.ratio_max:g} lets pass; {ending}"
    return ""


def letters(
    nodes: Mapping[str, DataFrame], checks: Sequence[Check], records: DataFrame, source: str
) -> DataFrame | None:
    """The dead letters of some checks, one for each record; None if no check sends any.

    `records`: the source's records as read.
    """
    from pyspark.sql import functions as F  # noqa: N812

    failed: DataFrame | None = None
    for check in checks:
        if check.action is not Action.DEAD_LETTER:
            continue
        frame = nodes[check.on]
        names = record_columns(frame.columns)
        place = [F.col(f"`{names[name]}`").alias(name) for name in RECORD]
        reason = F.lit(check.reason or f"check {check.name}: {check.expr.text}").alias("reason")
        one = frame.where(failing(check)).select(*place, reason)
        failed = one if failed is None else failed.unionByName(one)
    if failed is None:
        return None
    # One dead letter for each record, however many checks and rows of it fail: the table's key.
    reasons = F.array_join(F.array_sort(F.collect_set("reason")), "; ").alias("reason")
    by_record = failed.groupBy(*RECORD).agg(reasons)
    kept = ["key", "value", *headers_of(records)]
    found = records.select(*RECORD, "timestamp", *kept)
    return by_record.join(found, [*RECORD], "left").select(
        F.lit(source).alias("source"),
        *RECORD,
        "timestamp",
        "reason",
        *kept,
        F.lit("check").alias("stage"),
    )


def record_columns(names: Collection[str]) -> dict[str, str]:
    """`topic`, `partition`, `offset` → the column with it: of that name, or with a `_` prefix."""
    there = {name.lower(): name for name in reversed(list(names))}
    found = {name: there.get(name) or there.get(f"_{name}") for name in RECORD}
    return {name: column for name, column in found.items() if column}


def why_no_letters(check: Check, names: Collection[str]) -> str:
    """Why rows with these columns cannot identify their records; "" if they can."""
    missing = [name for name in RECORD if name not in record_columns(names)]
    if check.action is not Action.DEAD_LETTER or not missing:
        return ""
    wanted = ", ".join(f"`{name}`" for name in missing)
    return (
        f"`{check.on}` does not name the record of a row, as dead letters must: select "
        f"{wanted} there too, or check the source"
    )


def why_not_steady(check: Check, text: str) -> str:
    """Why a condition may not send dead letters; "" when it may. `text`: SQL, or Spark's plan."""
    match = _BY_TIME_OR_CHANCE.search(text)
    if check.action is not Action.DEAD_LETTER or match is None:
        return ""
    return (
        f"`{match[1].lower()}()` changes when the batch is read again, and a row could be left out "
        "without a dead letter: compare with the record's `timestamp`, or use `action: drop`"
    )


def told(checks: Mapping[str, Check], found: Mapping[str, Checked]) -> list[str]:
    """A line for each check of a run, in the file's order."""
    what = {
        Action.WARN: "failed it",
        Action.DROP: "failed it and were left out",
        Action.DEAD_LETTER: "failed it and are dead letters",
        Action.FAIL: "failed it",
    }
    return [
        f"check {name}: {each.failed:,} of {counted(each.rows, 'row')} {what[checks[name].action]}"
        for name, each in found.items()
    ]


def added(so_far: Mapping[str, Checked], more: Mapping[str, Checked]) -> dict[str, Checked]:
    """Counts of several batches."""
    names: dict[str, Any] = dict.fromkeys((*so_far, *more))
    return {name: so_far.get(name, Checked()) + more.get(name, Checked()) for name in names}
