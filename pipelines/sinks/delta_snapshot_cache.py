"""A Delta table's state, computed before a commit asks for it.

Delta (4.4) computes the whole state of a table for each commit that has a transaction, to look up
one number: of a small commit most of the time, and part of it for code that Spark generates anew in
every task, over a few hundred rows. So it is computed here, without generated code: the snapshot
keeps it, and the commit behind finds it there. What is asked is what Delta's own readers ask
(`Snapshot.transactions`); nothing is believed of the answer.
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
    """Of the table at `path`, whose newest version that is; of another one, which Delta may hold
    where others write the table too, the commit would not ask. `session`: one that nobody else
    uses meanwhile. What goes wrong here is the commit's to tell."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # TypeError: another Delta may have no such class.
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
