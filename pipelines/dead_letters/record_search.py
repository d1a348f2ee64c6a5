"""Search for the records of a micro-batch on which an expression fails, by computing parts of it.

Spark's error has the expression and a value, but not the record. The good rows are cached, and one
step of the sink (the rows of a transform, a condition, the rows for the table) is computed again,
of fewer records each time. Nothing here runs in a batch that does not fail.

Two searches: a step that makes each row from one record is halved until each half passes or is one
failing record. A step that combines records (the sums of a merge) fails for a set of them: the
record with which it first fails, in the order of topic, partition and offset, is the failing one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import or_
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    Good = DataFrame | Mapping[str, DataFrame]
    """The good rows of a source, or of each source that is joined, by its name."""
    Step = Callable[[Good], DataFrame]
    """Good rows → what a step of the sink makes of them."""

Rows = TypeVar("Rows", bound="DataFrame | Mapping[str, DataFrame]")

ROWS_STATES = ("22", "P0001")
"""The SQLSTATEs that a value causes: class 22 (ISO 9075: a cast, a division by zero, a range), and
that of `raise_error` and `assert_true` in the SQL of the file."""

Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""


Failure = tuple[Place, Exception]
"""A record, and the error with which a step fails for it."""


class TooManyError(Exception):
    """More records fail than the search may find. `first`: the first one."""

    def __init__(self, first: Failure) -> None:
        super().__init__()
        self.first = first


def is_of_a_row(error: BaseException) -> bool:
    """Whether a value of some row caused this error of Spark."""
    from pyspark.errors import PySparkException, PythonException

    if isinstance(error, PythonException):
        return True
    if isinstance(error, PySparkException):
        return (error.getSqlState() or "").startswith(ROWS_STATES)
    return any(state.startswith(ROWS_STATES) for state in _java_states(error))


def _java_states(error: BaseException) -> Iterator[str]:
    """The SQLSTATEs of a Py4J error and its causes: Delta's own calls are not translated."""
    from py4j.protocol import Py4JError

    java: Any = getattr(error, "java_exception", None)
    while java is not None:
        with contextlib.suppress(Py4JError):  # not an exception of Spark's
            yield str(java.getSqlState() or "")
        java = java.getCause()


def filtered(good: Rows, condition: Column) -> Rows:
    """The rows that match, of each source."""
    if isinstance(good, Mapping):
        return cast("Rows", {name: rows.where(condition) for name, rows in good.items()})
    return cast("Rows", good.where(condition))


def without(good: Rows, places: Sequence[Place]) -> Rows:
    """The rows of all other records."""
    from pyspark.sql import functions as F  # noqa: N812

    if not places:
        return good
    found = []
    for (topic, partition), some in groupby(sorted(places), key=lambda place: place[:2]):
        offsets = [offset for _, _, offset in some]
        here = (F.col("topic") == topic) & (F.col("partition") == partition)
        found.append(here & F.col("offset").isin(offsets))
    return filtered(good, ~reduce(or_, found))


def only(good: Rows, place: Place) -> Rows:
    """The rows of one record."""
    return filtered(good, _between(place, place))


def failure_of(rows: DataFrame) -> Exception | None:
    """The error of a value with which these rows are computed."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        rows.write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JError) as error:
        return error if is_of_a_row(error) else None
    return None


ErrorOf = Callable[[int, int], "Exception | None"]
"""The error with which a step makes the rows of the records from the first number to below the
second, in their order; at least one."""


def first_failing(count: int, error_of: ErrorOf) -> tuple[int, Exception] | None:
    """The first record with which the records up to it fail, and their error."""
    error = error_of(0, count) if count else None
    if error is None:
        return None
    # Prefixes, because what combines records may fail only with all that come before.
    low, high = 1, count
    while low < high:
        middle = (low + high) // 2
        found = error_of(0, middle)
        if found is None:
            low = middle + 1
        else:
            high, error = middle, found
    return low - 1, error


def all_failing(count: int, error_of: ErrorOf, found_max: int) -> list[tuple[int, Exception]]:
    """Every record that fails by itself, in order: `found_max` and one more at most."""
    found: list[tuple[int, Exception]] = []
    waiting: list[tuple[int, int, Exception | None, bool]] = [(0, count, None, False)]
    while waiting and len(found) <= found_max and count:
        low, high, error, fails = waiting.pop()
        if error is None and (high - low == 1 or not fails):
            error = error_of(low, high)
            fails = error is not None
        if high - low == 1 and error is not None:
            found.append((low, error))
        if high - low == 1 or not fails:
            continue
        middle = (low + high) // 2
        first = error_of(low, middle)
        # A half whose other half passes fails for certain, so only its parts are computed.
        waiting.append((middle, high, None, first is None))
        if first is not None:
            waiting.append((low, middle, first, True))
    return found


class RecordSearch:
    """The search in one batch. Mutable: counts its probes; each is a job over cached rows."""

    def __init__(self, good: Good, probes_max: int) -> None:
        """`good`: cached. Ends without a result after `probes_max`."""
        self._good = good
        self._left = probes_max
        self._places = _places_of(good)

    def first(self, step: Step, left_out: Sequence[Place] = ()) -> Failure | None:
        """The first record with which the step fails, and its error."""
        found = first_failing(len(self._places), self._error_of(step, left_out))
        return found and (self._place(found[0]), found[1])

    def all_of_rows(
        self, step: Step, found_max: int, left_out: Sequence[Place] = ()
    ) -> list[Failure]:
        """Every record that fails, of a step that makes each row from one record. Raises
        TooManyError."""
        error_of = self._error_of(step, left_out)
        numbers = all_failing(len(self._places), error_of, found_max)
        found = [(self._place(number), error) for number, error in numbers]
        if len(found) > found_max:
            raise TooManyError(found[0])
        return found

    def all_of_sets(
        self, step: Step, found_max: int, left_out: Sequence[Place] = ()
    ) -> list[Failure]:
        """The records without which the others pass, of a step that combines records. Raises
        TooManyError."""
        found: list[Failure] = []
        while True:
            out = [*left_out, *(place for place, _ in found)]
            failure = self.first(step, out)
            if failure is None or failure[0] in out:
                return found
            found.append(failure)
            if len(found) > found_max:
                raise TooManyError(found[0])

    def _place(self, number: int) -> Place:
        (topic, partition, offset) = (column[number].as_py() for column in self._places.columns)
        return topic, partition, offset

    def _error_of(self, step: Step, left_out: Sequence[Place]) -> ErrorOf:
        """None, too, when no probes are left."""

        def error_of(low: int, high: int) -> Exception | None:
            if self._left == 0:
                return None
            self._left -= 1
            some = self._good
            if high - low < len(self._places):
                some = filtered(some, _between(self._place(low), self._place(high - 1)))
            return failure_of(step(without(some, left_out)))

        return error_of


def _places_of(good: Good) -> pa.Table:
    """The records of a batch, in order: a few bytes for each."""
    import pyarrow as pa

    tables = [
        rows.select("topic", "partition", "offset").toArrow()
        for rows in (good.values() if isinstance(good, Mapping) else [good])
    ]
    whole = pa.concat_tables(tables)
    # A record may be there twice: an array's elements have one place.
    once = whole.group_by(whole.column_names).aggregate([])
    return once.sort_by([(name, "ascending") for name in whole.column_names])


def _between(first: Place, last: Place) -> Column:
    """The records from one place to another, both included."""
    from pyspark.sql import functions as F  # noqa: N812

    names = ("topic", "partition", "offset")
    place = F.struct(*names)

    def literal(of: Place) -> Column:
        kinds = ("string", "int", "bigint")
        values = zip(names, kinds, of, strict=True)
        return F.struct(*[F.lit(value).cast(kind).alias(name) for name, kind, value in values])

    return place.between(literal(first), literal(last))
