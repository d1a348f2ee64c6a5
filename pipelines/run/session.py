"""The Spark session of a pipeline run, started from its file, with quiet logs and failpoints."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from pipelines.base import failpoints
from pipelines.base.errors import SetupError
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.model.pipeline import Pipeline
from pipelines.run.multi_run import conf_of
from pipelines.sinks.targets import target_of
from pipelines.spark.jvm import process_of, quieten_py4j, spared_signals, stopping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


DEFAULTS: Mapping[str, str] = {
    # PySpark sends the Python line of each call on a column to the JVM: five round trips per call,
    # and our frames are the same for each batch. Errors name the lines of the pipeline file.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_FRAME = re.compile(r"\s+at |\s*\.\.\. \d+ more")
"""A line of Java's stack trace."""


def what_begins(conf: Mapping[str, str], paths: Sequence[str] = ()) -> str:
    """What is starting, for the progress line: a user's first start also fetches Delta's jars, and
    the first one into a store its file system. `paths`: see `paths_of`."""
    from josefine_spark.sessions.session import SessionError, fetches_jars, fetches_packages

    try:
        fetches = {"Delta's": fetches_jars(conf), "the store's": fetches_packages(conf, paths)}
    except (SessionError, ModuleNotFoundError):
        fetches = {}  # the start itself reports the bad setting or the missing PySpark
    whose = " and ".join(each for each, is_due in fetches.items() if is_due)
    return f"Spark; {whose} jars are fetched first, once" if whose else "Spark"


def start_session(pipeline: Pipeline) -> SparkSession:
    """The Spark session of the pipeline file. Raises SetupError."""
    name, conf = f"josefine {pipeline.name}", dict(pipeline.conf)
    return start_named(name, conf, pipeline.master, paths_of(pipeline))


def paths_of(pipeline: Pipeline) -> list[str]:
    """The paths of the file that Spark reads or writes."""
    found = [pipeline.checkpoint]
    found += [path for sink in pipeline.sinks.values() for _, path in target_of(sink).folders()]
    found += [each.path for each in pipeline.lookups.values() if each.path]
    found += [one.local.path for one in pipeline.sources.values() if one.table_stream and one.local]
    return [*found, pipeline.dead_letter_path] if pipeline.dead_letter_path else found


def session_of(pipeline: Pipeline) -> AbstractContextManager[SparkSession]:
    """The same as a context that stops it at its end. Raises also SparkGoneError there."""
    return stopping(start_session(pipeline))


def session_of_all(pipelines: Sequence[Pipeline]) -> AbstractContextManager[SparkSession]:
    """One for several files that agree. Raises as `session_of` does."""
    conf, master = conf_of(pipelines)
    names = ", ".join(each.name for each in pipelines)
    paths = [path for each in pipelines for path in paths_of(each)]
    return stopping(start_named(f"josefine {names}", conf, master, paths))


def start_named(
    name: str, conf: Mapping[str, str], master: str | None = None, paths: Sequence[str] = ()
) -> SparkSession:
    """The Spark session of an application that uses these paths. Raises SetupError."""
    from josefine_spark.sessions.session import SessionError, session

    with tempfile.TemporaryFile() as said:
        try:
            with spared_signals(), _stderr_to(said.fileno()):
                spark = session(name, {**DEFAULTS, **conf}, master, paths)
        except SessionError as error:
            raise SetupError(str(error)) from error
        except Exception as error:
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            last = [line.strip() for line in lines if not _FRAME.match(line)][-1:]
            reason = "; ".join([clear_reason(error), *last])
            raise SetupError(f"Spark does not start: {reason}") from error
    # Failures reach the user in our words; Spark's log and PySpark's (a page of JSON on stderr for
    # each refused query) would bury them.
    spark.sparkContext.setLogLevel("OFF")
    logging.getLogger("SQLQueryContextLogger").disabled = True
    quieten_py4j()
    return spark


def arm_failpoints(spark: SparkSession) -> None:
    """Arm the failpoints in JOSEFINE_FAIL, with the JVM, which must die with this process."""
    process = process_of(spark)
    arm_failpoints_alone(process.pid if process else None)


def arm_failpoints_alone(jvm_pid: int | None = None) -> None:
    """The same for a command without Spark."""
    text = os.environ.get("JOSEFINE_FAIL")
    if text:
        try:
            failpoints.arm(text, jvm_pid)
        except ValueError as error:
            raise SetupError(str(error)) from error


@contextmanager
def _stderr_to(file: int) -> Iterator[None]:
    """Redirect stderr for the JVM that starts meanwhile: its output would break progress bars.

    JOSEFINE_DEBUG turns this off.
    """
    if os.environ.get("JOSEFINE_DEBUG"):
        yield
        return
    sys.stderr.flush()
    ours = os.dup(2)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
