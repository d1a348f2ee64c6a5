"""A sink's constraints in its Delta table: added, and the verdict when a batch breaks one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.base.errors import RunError
from pipelines.exactly_once.offset_chain import Commit
from pipelines.exactly_once.verdict_messages import offsets
from pipelines.model.constraints import Due, broken, due, rows_against
from pipelines.model.pipeline import Sink
from pipelines.sinks import delta_tables
from pipelines.spark.errors import complaint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def constraints_due(spark: SparkSession, sink: Sink, path: str) -> Due:
    """The constraints that the table lacks. Raises RunError if it has another one of a name."""
    if not sink.constraints:
        return ()
    wants = {name: condition.bound for name, condition in sink.constraints.items()}
    found = due(delta_tables.settings_of(spark, path), wants)
    if isinstance(found, str):
        raise RunError(f"sink `{sink.name}`: {sink.told} {found}")
    return found


def constrain(spark: SparkSession, sink: Sink, path: str, wanted: Due) -> None:
    """Add them to the table one by one: after a crash the next start finds the rest due.

    Raises RunError if a row violates one, ConfigError if Delta rejects the condition.
    """
    from pyspark.errors import PySparkException

    for name, text in wanted:
        try:
            delta_tables.constrain(spark, path, name, text)
        except PySparkException as error:
            rows = rows_against(str(error))
            said = sink.constraints[name]
            if rows is None:
                raise complaint(said.place, said.path, error) from error
            many = "1 row of it is" if rows == 1 else f"{rows:,} rows of it are"
            raise RunError(
                f"sink `{sink.name}`: {sink.told} cannot get constraint `{name}` ({text}): {many} "
                "against it. Fix or delete those rows, or write to a new table"
            ) from error


def why_broken(
    sink: Sink, path: str, commit: Commit, batch_id: int, error: Exception
) -> RunError | None:
    """The error for a write that the table refused because of a row; None for other failures."""
    what = broken(str(error))
    if what is None:
        return None
    return RunError(
        f"sink `{sink.name}` stopped, nothing of its batch {batch_id} was written: a row "
        f"breaks {what}\n"
        f"  table {path}\n"
        f"  batch {batch_id} reads from {offsets(commit.start)} to {offsets(commit.end.ends)}\n"
        "Fix what makes such rows, or let a check with `action: dead_letter` or `drop` take "
        "them out first, and run again; or drop the constraint of the table."
    )
