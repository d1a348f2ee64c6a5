"""Precomputed state of a Delta table for the next commit.

Delta (4.4) computes the whole state of a table for each commit with a transaction, to look up one
number. That is most of the time of a small commit, partly for code that Spark generates again in
every task, over a few hundred rows. So the state is computed here first, without generated code:
the snapshot caches it, and the following commit finds it there. The call is one of Delta's own
readers (`Snapshot.transactions`); its result is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def compute_state(session: SparkSession, path: str, version: int) -> None:
    """Compute the state of the table at `path` if Delta's cached snapshot has `version`, the newest
    one. If others write the table, Delta may hold another snapshot, which the commit will not use.
    `session`: not used by others meanwhile. Failures are left to the commit to report."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # TypeError: another version of Delta may lack the class.
    with suppress(Py4JError, PySparkException, TypeError):
        jvm: Any = session._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)
        snapshot = log.unsafeVolatileSnapshot()
        if snapshot.version() == version:
            with _interpreted(session):
                snapshot.transactions()


@contextmanager
def _interpreted(session: SparkSession) -> Iterator[None]:
    before: dict[str, Any] = {name: session.conf.get(name, None) for name in _INTERPRETED}
    try:
        for name, value in _INTERPRETED.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)
