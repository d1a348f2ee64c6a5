"""A dry write: everything that a sink's first commit does to a table, with zero rows, elsewhere.

Types that Delta does not store, names that it refuses, a MERGE that Spark cannot analyze, a column
that cannot be clustered: each is found before anything of the table exists or changes. The scratch
table is on the driver's disk and gone afterwards; zero rows reach no executor.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.base import failpoints
from pipelines.base.errors import RunError
from pipelines.model.pipeline import Sink
from pipelines.model.retry_policy import retry_of
from pipelines.sinks.delta_log import newest_snapshot
from pipelines.spark.errors import in_short

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_COPIES = "catalogManaged"
"""The table feature with which only a catalog makes commits."""


def dry_write(
    spark: SparkSession, sink: Sink, write: Callable[[str], None], like: str | None = None
) -> None:
    """Call `write` with the path of a scratch table. `like`: the folder of the table whose schema
    and settings it has; without it there is none yet. Raises RunError."""
    with tempfile.TemporaryDirectory(prefix="josefine-dry-write-") as folder:
        if like is not None and not _copied(spark, like, Path(folder, "table")):
            return  # its first commit is the proof then
        how = "by a dry write of none (nothing was created or changed)"
        with in_one_sentence(sink, how), failpoints.passed_over():
            # One slash, as Hadoop writes it: Delta compares the texts.
            write(f"file:{folder}/table")


@contextmanager
def in_one_sentence(sink: Sink, how: str) -> Iterator[None]:
    """Raise RunError for an error of Spark or Delta within that another attempt would not cure."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        if retry_of(error) is not None:
            raise
        text = str(error)
        # The JVM's own text of an error starts with the class of it.
        said = in_short(text[max(text.find("[DELTA_"), 0) :])
        raise RunError(
            f"sink `{sink.name}`: {sink.told} cannot take the rows, {how}: {said}"
        ) from (error)


def _copied(spark: SparkSession, path: str, to: Path) -> bool:
    """Make an empty table with the schema, the settings and the features of another; whether that
    could be done. A log of one commit, which costs no job, as a clone does."""
    from py4j.protocol import Py4JError

    try:
        snapshot = newest_snapshot(spark, path)
        actions = [snapshot.protocol().json(), snapshot.metadata().json()]
    except (Py4JError, TypeError):  # TypeError: another version of Delta may lack the class
        return False
    if _NO_COPIES in actions[0]:
        return False
    made = {"timestamp": 1, "inCommitTimestamp": 1, "operation": "CREATE TABLE"}
    commit = json.dumps({"commitInfo": {**made, "operationParameters": {}}})
    folder = to / "_delta_log"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.json").write_text("\n".join([commit, *actions]) + "\n", "utf-8")
    return True
