"""The JVM of a Spark session: whether it is alive, and the error message if it is not.

Rules: a JVM that ended (killed for its memory, or by a signal to the process group) gives one
sentence, not Py4J's tracebacks; a JVM that another process started (spark-submit) is not touched.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.base.errors import RunError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDING_S = 5.0
"""Grace time: connections fail and queries stop a moment before the JVM has ended."""


class SparkGoneError(RunError):
    """The JVM ended during the run."""


def process_of(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """The JVM that this process started; None if another process did."""
    gateway: Any = spark.sparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    return process


@contextmanager
def spared_signals() -> Iterator[None]:
    """A JVM that starts within ignores the signals that end a run between batches.

    A closed terminal, a wrapper's timeout and a supervisor signal the whole process group; the JVM
    would end at once and lose the current batch. It ends with this process, because that closes its
    stdin. PySpark protects it from SIGINT in the same way, in the child before exec. A JVM that an
    error or Ctrl-C leaves without a gateway is killed: it cannot report its port any more, fails at
    that, and would then wait for connections for ever.
    """
    try:
        from pyspark import SparkContext, java_gateway
    except ModuleNotFoundError:  # nothing starts then, and the starting code reports why
        yield
        return
    starter: Any = java_gateway  # it has its own name of subprocess.Popen
    popen = starter.Popen
    started: list[subprocess.Popen[bytes]] = []

    def spared(*arguments: Any, preexec_fn: Callable[[], None] | None = None, **more: Any) -> Any:
        def ignore() -> None:
            if preexec_fn is not None:
                preexec_fn()
            for number in (signal.SIGHUP, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)

        process = popen(*arguments, preexec_fn=ignore, **more)
        started.append(process)
        return process

    starter.Popen = spared
    try:
        yield
    except BaseException:
        gateway = SparkContext._gateway
        for process in started:
            if gateway is None or process is not gateway.proc:
                process.kill()
        raise
    finally:
        starter.Popen = popen


def quieten_py4j() -> None:
    """Silence Py4J about closed connections: this module reports them. JOSEFINE_DEBUG keeps it."""
    if not os.environ.get("JOSEFINE_DEBUG"):
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
        logging.getLogger().addFilter(_is_not_of_py4j)  # it uses the root's functions, too


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


@contextmanager
def watched(spark: SparkSession, then: str) -> Iterator[None]:
    """Raise SparkGoneError for any error within if the JVM has ended; `then`: the rest of the
    sentence."""
    process = process_of(spark)
    try:
        yield
    except SparkGoneError:
        raise
    except Exception as error:
        if process is None or not _has_ended(spark, process):
            raise
        raise SparkGoneError(f"Spark's JVM {_how(process.returncode)} {then}") from error


def has_gone(spark: SparkSession) -> bool:
    """Whether the JVM that this process started has ended."""
    process = process_of(spark)
    return process is not None and _has_ended(spark, process)


@contextmanager
def stopping(spark: SparkSession) -> Iterator[SparkSession]:
    """A session for the code within: stopped afterwards, its JVM watched."""
    try:
        with watched(spark, "meanwhile: the command may be given again"):
            yield spark
    finally:
        stop_session(spark)


def stop_session(spark: SparkSession) -> None:
    """Stop the session, unless the JVM has ended."""
    process = process_of(spark)
    try:
        spark.stop()
    except Exception:
        if process is None or not _has_ended(spark, process):
            raise


def _has_ended(spark: SparkSession, process: subprocess.Popen[bytes]) -> bool:
    try:
        if not spark.sparkContext._jsc.sc().isStopped():
            return False
    except Exception:
        pass  # it does not answer
    try:
        process.wait(ENDING_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _how(status: int) -> str:
    number = -status if status < 0 else status - 128
    if number == signal.SIGKILL:
        return "was killed (signal 9; the kernel's log shows whether memory ran out)"
    if number == signal.SIGTERM:
        return "was terminated (signal 15)"
    return f"ended (status {status})"
