"""Each record that fails is found, and no other, however many there are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dead_letters.record_search import all_failing, first_failing, is_of_a_row

errors = pytest.importorskip("pyspark.errors")
py4j = pytest.importorskip("py4j.protocol")
COUNTS = st.integers(0, 2_000)


class Batch:
    """Records by their numbers. Mutable: counts what is computed."""

    def __init__(self, count: int) -> None:
        self.count, self.probes = count, 0

    def some(self, low: int, high: int) -> range:
        assert 0 <= low < high <= self.count
        self.probes += 1
        return range(low, high)


@given(count=COUNTS, places=st.sets(st.floats(0, 1, exclude_max=True), max_size=20))
def test_every_record_that_fails_by_itself_is_found_in_order(
    count: int, places: set[float]
) -> None:
    batch, bad = Batch(count), sorted({int(place * count) for place in places}) if count else []

    def error_of(low: int, high: int) -> Exception | None:
        some = batch.some(low, high)
        failing = [each for each in bad if each in some]
        return ValueError(failing[0]) if failing else None

    found = all_failing(count, error_of, found_max=100)

    assert [number for number, _ in found] == bad
    assert [error.args[0] for _, error in found] == bad
    assert batch.probes <= 1 + 24 * len(bad)


@given(count=COUNTS, limit=st.integers(1, 2_000))
def test_a_sum_fails_with_the_first_record_that_exceeds_it(count: int, limit: int) -> None:
    batch = Batch(count)

    def error_of(low: int, high: int) -> Exception | None:
        return OverflowError() if len(batch.some(low, high)) >= limit else None

    found = first_failing(count, error_of)

    assert (found and found[0]) == (limit - 1 if count >= limit else None)
    assert batch.probes <= 13


def test_the_search_ends_when_more_records_fail_than_the_limit() -> None:
    found = all_failing(100, lambda low, high: ValueError(), found_max=3)

    assert [number for number, _ in found] == [0, 1, 2, 3]
    assert len(all_failing(100, lambda low, high: ValueError(), found_max=100)) == 100
    assert all_failing(0, lambda low, high: ValueError(), found_max=1) == []
    assert first_failing(0, lambda low, high: ValueError()) is None


class Divided(errors.ArithmeticException):
    """Spark's error, with a SQLSTATE."""

    def __init__(self, state: str = "22012") -> None:
        super().__init__("[DIVIDE_BY_ZERO] Division by zero.")
        self.state = state

    def getSqlState(self) -> str:  # noqa: N802
        return self.state


@pytest.mark.parametrize(
    ("error", "of_a_row"),
    [
        (errors.PythonException("raised in a UDF"), True),
        (Divided(), True),
        (Divided(state="42703"), False),
        (OSError("disk full"), False),
        (py4j.Py4JError("gone"), False),
    ],
)
def test_only_an_error_that_a_value_causes_is_of_a_row(error: Exception, of_a_row: bool) -> None:
    assert is_of_a_row(error) is of_a_row


def test_the_causes_of_an_untranslated_error_count() -> None:
    inner = SimpleNamespace(getSqlState=lambda: "22003", getCause=lambda: None)
    error = py4j.Py4JError("o.merge")
    error.java_exception = SimpleNamespace(getSqlState=lambda: None, getCause=lambda: inner)

    assert is_of_a_row(error)
