"""Runs a transform's own Python function: frames in, a frame out, on the driver, once a batch.

The file is imported from the text that was read with the pipeline, once in a process: a run goes
on with what it began with. What of it goes to executors (the functions of UDFs) goes by value, so
that no worker needs the file; other modules that it imports must be installed there.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pipelines.model.pipeline import Function, Transform
from pipelines.spark.errors import in_short, refusal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rows_of(transform: Transform, inputs: Sequence[DataFrame]) -> DataFrame:
    """What the function makes of its inputs' rows.

    Raises ConfigError for whatever it raises, with the line of its file; what py4j raises of a JVM
    that ended is none of the function's and stays.
    """
    from py4j.protocol import Py4JError
    from pyspark.sql import DataFrame

    function, said = transform.function, transform.said
    assert function is not None
    try:
        made: Any = getattr(_module(function), function.name)(*inputs)
        if isinstance(made, DataFrame):
            _ = made.schema
    except Py4JError:
        raise
    except Exception as error:
        raise refusal(said.place, said.path, _told(function, error)) from error
    if not isinstance(made, DataFrame):
        message = f"`{function.name}` gave {_kind(made)}; expected a DataFrame"
        raise refusal(said.place, said.path, message)
    return made


@cache
def _module(function: Function) -> ModuleType:
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


def _told(function: Function, error: Exception) -> str:
    """What went wrong, and the last line of the user's file that it went through."""
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
