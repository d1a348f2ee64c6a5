"""Python functions as transforms: frames in, a frame out, on the driver, once per batch.

The file is imported from the text that was read with the pipeline, once per process, so a run keeps
the code it started with. Its UDF functions are pickled by value, so no executor needs the file;
other modules that it imports must be installed there.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pipelines.model.pipeline import Function, Transform
from pipelines.spark.errors import in_short, refusal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rows_of(transform: Transform, inputs: Sequence[DataFrame]) -> DataFrame:
    """The result of the function over its inputs' rows.

    Raises ConfigError for any error of the function, with the line of its file. A Py4JError, of a
    JVM that has ended, is not the function's and is raised as it is.
    """
    from pyspark.sql import DataFrame

    function, said = transform.function, transform.said
    assert function is not None

    def call() -> Any:
        made: Any = getattr(module_of(function), function.name)(*inputs)
        if isinstance(made, DataFrame):
            _ = made.schema
        return made

    made = of_user(transform, call)
    if not isinstance(made, DataFrame):
        message = f"`{function.name}` gave {_kind(made)}; expected a DataFrame"
        raise refusal(said.place, said.path, message)
    return made


def of_user(transform: Transform, call: Callable[[], Any]) -> Any:
    """The result of code of the user's file. Raises as `rows_of`."""
    from py4j.protocol import Py4JError

    function, said = transform.function, transform.said
    assert function is not None
    try:
        return call()
    except Py4JError:
        raise
    except Exception as error:
        raise refusal(said.place, said.path, _why_failed(function, error)) from error


@cache
def module_of(function: Function) -> ModuleType:
    """The module of a function's file, imported once from the text that the pipeline was read
    with."""
    from pyspark import cloudpickle

    digest = hashlib.sha256(f"{function.file}\0{function.source}".encode()).hexdigest()[:12]
    module = ModuleType(f"{Path(function.file).stem}_{digest}")
    module.__file__ = function.file
    code = compile(function.source, function.file, "exec", dont_inherit=True)
    sys.modules[module.__name__] = module  # dataclasses and pickles look for it there
    try:
        exec(code, module.__dict__)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    cloudpickle.register_pickle_by_value(module)
    return module


def _why_failed(function: Function, error: Exception) -> str:
    """The error, with the last line of the user's file in its traceback."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == function.file
    ]
    text = in_short(str(error)).partition("\n")[0].rstrip(". ")
    why = f"{type(error).__name__}{': ' if text else ''}{text}"
    return f"{function.file}{f':{lines[-1]}' if lines else ''}: {why}"


def _kind(made: object) -> str:
    return "nothing" if made is None else f"`{type(made).__name__}`"
