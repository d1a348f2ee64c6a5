"""Python classes with a state: PySpark's `transformWithState`, one object for each key's rows.

The class is imported like a function (`python_function.py`) and pickled by value. Its state is in
RocksDB, the only store of Spark that has timers and several values for a key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pipelines.base.quoting import quoted
from pipelines.model.pipeline import Transform
from pipelines.spark.errors import complaint, refusal
from pipelines.transforms.python_function import module_of, of_user

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TIME_MODES = {"event_time": "EventTime", "processing_time": "ProcessingTime", "none": "None"}
"""`timers` of the file → Spark's time mode."""
_MODULE = re.compile(r"^(?:\w+\.)+(?=\w)")


def rows_of(transform: Transform, rows: DataFrame) -> DataFrame:
    """The rows that the class gives. Raises ConfigError for an error of the class's own code on the
    driver, and for keys and columns that Spark refuses."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812

    state = transform.state
    assert state is not None
    processor = processor_of(transform)
    kinds = {name.lower() for name in rows.columns}
    for key, place in zip(state.keys, state.key_places, strict=True):
        if key.lower() not in kinds:
            message = f"no column {key} in `{transform.inputs[0]}`; it has: "
            path = f"transforms.{transform.name}.state.keys"
            raise refusal(place, path, message + ", ".join(rows.columns))
    grouped = rows.groupBy(*[F.col(quoted(key)) for key in state.keys])
    try:
        made = grouped.transformWithState(
            processor, state.schema, "Append", TIME_MODES[state.timers]
        )
        _ = made.schema
    except PySparkException as error:
        raise complaint(state.schema_place, state.schema_path, error) from error
    return made


def use_rocksdb(session: SparkSession) -> None:
    """Let the queries of a session keep their state in RocksDB."""
    session.conf.set(PROVIDER, ROCKSDB)


def why_class_failed(transform: Transform, error: Exception) -> str:
    """The error of the class in Spark's long text, with the last line of its file in the traceback;
    "" if it is another error."""
    function = transform.function
    if function is None or transform.state is None:
        return ""
    text = str(error)
    lines = re.findall(rf'File "{re.escape(function.file)}", line (\d+)', text)
    if not lines:
        return ""
    # Python indents the lines of a traceback, and Spark appends its own text: the first line that
    # is not indented names the error.
    after = text[text.rindex(f'File "{function.file}", line {lines[-1]}') :].splitlines()[1:]
    found = next((line for line in after if line and not line[0].isspace()), "")
    why = _MODULE.sub("", found)
    return f"transform `{transform.name}`: {function.file}:{lines[-1]}: {why}"


def processor_of(transform: Transform) -> Any:
    """An object of the class, with the TTL of the file. Raises ConfigError."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    function, said, state = transform.function, transform.said, transform.state
    assert function is not None
    assert state is not None
    made = of_user(transform, lambda: getattr(module_of(function), function.name))
    if not (isinstance(made, type) and issubclass(made, StatefulProcessor)):
        message = f"`{function.name}` of {function.file} is not a class with a state: expected "
        message += "one that extends pyspark.sql.streaming.StatefulProcessor"
        raise refusal(said.place, said.path, message)
    bounded = made if state.ttl_ms is None else _with_ttl(made, state.ttl_ms)
    return of_user(transform, bounded)


def _with_ttl(made: type, ttl_ms: int) -> type:
    """The class whose values expire, except those for which it names a time itself. Defined here,
    so that it is pickled by value, too."""

    class Handle:
        def __init__(self, handle: Any) -> None:
            self._handle = handle

        def __getattr__(self, name: str) -> Any:
            return getattr(self._handle, name)

        def getValueState(self, name: str, schema: Any, ttl: int | None = None) -> Any:  # noqa: N802
            return self._handle.getValueState(name, schema, ttl or ttl_ms)

        def getListState(self, name: str, schema: Any, ttl: int | None = None) -> Any:  # noqa: N802
            return self._handle.getListState(name, schema, ttl or ttl_ms)

        def getMapState(  # noqa: N802
            self, name: str, key: Any, value: Any, ttl: int | None = None
        ) -> Any:
            return self._handle.getMapState(name, key, value, ttl or ttl_ms)

    base: Any = made

    class WithTtl(base):
        def init(self, handle: Any) -> None:
            super().init(Handle(handle))

    return WithTtl
