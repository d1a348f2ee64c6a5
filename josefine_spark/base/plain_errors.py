"""A decorator that reduces a stream's own errors to one sentence without Python's traceback.

Spark's `hideTraceback` applies to planners and tasks, but not to the driver's process of a stream.
There PySpark checks an environment variable when it reports an error. The process ends with that
error, so no other error loses its traceback.
"""

import functools
import os
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from josefine_broker.base.errors import KafkaError
from josefine_spark.base.errors import DataLossError, LossTableError, OptionError, ReadError

PLAIN = (DataLossError, KafkaError, LossTableError, OptionError, ReadError)
HIDE = "SPARK_HIDE_TRACEBACK"
SPARKS_PROCESS = "PYTHON_WORKER_FACTORY_"
"""Prefix of the environment variables of Python processes that Spark starts."""

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def without_traceback(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], R]:
    """Report the connector's own errors from this method without a traceback."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except PLAIN:
            if any(name.startswith(SPARKS_PROCESS) for name in os.environ):
                os.environ[HIDE] = "1"
            raise

    return call
