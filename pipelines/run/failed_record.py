"""Search for the first record on which an expression of the file fails, after a micro-batch failed.

Spark's error has the expression and a value, but not the record. The batch's good rows are cached
and the sink's rows are computed again, of fewer records each time: of a prefix of the partitions,
then of a prefix of one partition's offsets. Nothing here runs, or is imported, in a batch that does
not fail.

What fails only in the target (a merge's own arithmetic, a constraint) is not found here: the sink's
rows are computed without an error then.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pipelines.base.quoting import quoted
from pipelines.config.source_positions import place_at
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.model.pipeline import Transform
from pipelines.spark.errors import in_short

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    Made = Callable[[DataFrame], Mapping[str, DataFrame]]
    """Good rows of the source → the rows of each transform, by its name."""

PROBES_MAX = 64
"""Enough for halves of 2^40 offsets in 2^20 partitions; each probe is a job over cached rows."""

DATA_EXCEPTION = "22"
"""The class of an SQLSTATE that a value causes (ISO 9075): a cast, a division by zero, a range."""

_ADVICE = re.compile(r"Use `[^`]+` to [^.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """The offsets of a partition in the batch, both ends included."""

    topic: str
    partition: int
    first: int
    last: int

    def condition(self) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        here = (F.col("topic") == self.topic) & (F.col("partition") == self.partition)
        return here & F.col("offset").between(self.first, self.last)


def is_of_a_row(error: BaseException) -> bool:
    """Whether a value of some row caused this error of Spark."""
    from pyspark.errors import PySparkException, PythonException

    if isinstance(error, PythonException):
        return True
    if isinstance(error, PySparkException):
        return (error.getSqlState() or "").startswith(DATA_EXCEPTION)
    return any(state.startswith(DATA_EXCEPTION) for state in _java_states(error))


def _java_states(error: BaseException) -> Iterator[str]:
    """The SQLSTATEs of a Py4J error and its causes: Delta's own calls are not translated."""
    from py4j.protocol import Py4JError

    java: Any = getattr(error, "java_exception", None)
    while java is not None:
        with contextlib.suppress(Py4JError):  # not an exception of Spark's
            yield str(java.getSqlState() or "")
        java = java.getCause()


def failed_record(
    good: DataFrame, made_of: Made, node: str, transforms: Sequence[Transform], error: Exception
) -> str | None:
    """The message that names the record, the expression and its place in the file; None if the
    sink's rows can be computed, or if another error stops the search. `node`: the transform
    whose rows the sink takes; `transforms`: it and those before it, each after its inputs."""
    if not is_of_a_row(error):
        return None
    kept = good.persist()
    try:
        search = _Search(kept, made_of, node)
        found = search.first()
        if found is None:
            return None
        where, failure = found
        named = _expression(failure, transforms) or search.column(where, transforms)
    finally:
        kept.unpersist()
    said = in_short(str(failure)) if named else clear_reason(failure)
    advice = _ADVICE.search(" ".join(str(failure).split()))
    return (
        f"{named or 'a transform'} fails for {where.topic}-{where.partition} offset {where.first}: "
        f"{said}; nothing of this batch was written{f'. {advice[0]}' if advice else ''}"
    )


def _expression(error: Exception, transforms: Sequence[Transform]) -> str | None:
    """The expression, after its place; None if Spark does not name one of the file's."""
    contexts: Any = getattr(error, "getQueryContext", list)()
    for context in contexts:
        fragment, at = str(context.fragment()), int(context.startIndex())
        for transform in transforms:
            said = transform.said
            if transform.function or said.bound[at : at + len(fragment)] != fragment:
                continue
            is_written = said.text[at : at + len(fragment)] == fragment
            place = place_at(said, at) if is_written else said.place
            return f"{place}: {said.path}: `{' '.join(fragment.split())}`"
    return None


class _Search:
    """Mutable: counts its probes."""

    def __init__(self, good: DataFrame, made_of: Made, last: str) -> None:
        """`last`: the transform whose rows the sink takes."""
        self._good, self._made_of, self._last = good, made_of, last
        self._left = PROBES_MAX

    def first(self) -> tuple[_Range, Exception] | None:
        """The first record that fails, as a range of one, and its error."""
        from pyspark.sql import functions as F  # noqa: N812

        ends = self._good.groupBy("topic", "partition").agg(F.min("offset"), F.max("offset"))
        ranges = [
            _Range(topic=row[0], partition=row[1], first=row[2], last=row[3])
            for row in sorted(ends.collect())
        ]
        if not ranges or self._error(ranges) is None:
            return None
        count = self._least(1, len(ranges), lambda many: ranges[:many])
        one = ranges[count - 1]
        last = self._least(one.first, one.last, lambda end: [_cut(one, one.first, end)])
        record = _cut(one, last, last)
        error = self._error([record])
        return None if error is None else (record, error)

    def column(self, record: _Range, transforms: Sequence[Transform]) -> str | None:
        """The first column that fails for the record: of an expression that Spark does not name."""
        made = self._made_of(self._good.where(record.condition()))
        for transform in transforms:
            rows, said = made[transform.name], transform.said
            for name in rows.columns:
                if self._failure(rows.select(quoted(name))) is not None:
                    what = "python" if transform.function else "sql"
                    return f"{said.place}: transforms.{transform.name}.{what}: column `{name}`"
        return None

    def _least(self, low: int, high: int, ranges: Callable[[int], list[_Range]]) -> int:
        """The least number from `low` to `high` whose ranges fail; those of `high` do."""
        while low < high:
            middle = (low + high) // 2
            if self._error(ranges(middle)) is None:
                low = middle + 1
            else:
                high = middle
        return low

    def _error(self, ranges: list[_Range]) -> Exception | None:
        """The error with which the rows of these records are computed; None after too many."""
        if self._left == 0:
            return None
        self._left -= 1
        condition = reduce(or_, (each.condition() for each in ranges))
        return self._failure(self._made_of(self._good.where(condition))[self._last])

    def _failure(self, rows: DataFrame) -> Exception | None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            rows.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JError) as error:
            return error if is_of_a_row(error) else None
        return None


def _cut(whole: _Range, first: int, last: int) -> _Range:
    return _Range(topic=whole.topic, partition=whole.partition, first=first, last=last)
