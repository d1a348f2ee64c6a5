"""Takes Python's traceback from around what a stream of ours says when it ends: one sentence.

Spark's `hideTraceback` reaches planners and tasks, and not the process in which a stream lives on
the driver. PySpark looks at an environment variable there when it has an error to tell; the process
ends with that error, so nobody else's is hidden.
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
"""How names begin that Spark gives to the Python processes it starts."""

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def said_plainly(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], R]:
    """Errors of ours that leave this method end the process without a traceback."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except PLAIN:
            if any(name.startswith(SPARKS_PROCESS) for name in os.environ):
                os.environ[HIDE] = "1"
            raise

    return call
