"""The first record on which an expression fails is found with few jobs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.base.errors import Place
from pipelines.model.pipeline import Placed, Transform
from pipelines.run.failed_record import PROBES_MAX, failed_record, is_of_a_row
from tests.unit.pipelines.tiny_spark import Frame

errors = pytest.importorskip("pyspark.errors")
py4j = pytest.importorskip("py4j.protocol")
pytestmark = pytest.mark.usefixtures("tiny_spark")
PLACE = Place(file="f.yaml", line=4, column=10)
SAID = Placed(text="select 1 / a from raw", place=PLACE, path="transforms.t.sql",
              written="select 1 / a from raw")  # fmt: skip
TRANSFORM = Transform(name="t", place=PLACE, inputs=("raw",), said=SAID)


class Divided(errors.ArithmeticException):
    """Spark's error of a value, with the expression that failed."""

    def __init__(self, fragment="", at=0, state="22012"):
        super().__init__("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate it. x.")
        self.state, self.fragment, self.at = state, fragment, at

    def getSqlState(self):  # noqa: N802
        return self.state

    def getQueryContext(self):  # noqa: N802
        context = SimpleNamespace(fragment=lambda: self.fragment, startIndex=lambda: self.at)
        return [context] if self.fragment else []


class Rows(Frame):
    """Rows of a transform: the column `offset` of a `bad` place raises the error. Counts jobs."""

    def __init__(self, rows, bad, error, jobs):
        super().__init__(rows, ["topic", "partition", "offset"])
        self.bad, self.error, self.jobs = bad, error, jobs
        self.write, self.computed = self, self.columns

    def _of(self, rows, columns):
        made = Rows(rows, self.bad, self.error, self.jobs)
        made.columns = [*columns]
        return made

    def select(self, *columns):
        """The same rows, of which some columns are computed."""
        made = self._of(self.rows, self.columns)
        made.computed = [name.strip("`") for name in columns]
        return made

    def format(self, name):
        assert name == "noop"
        return self

    def mode(self, name):
        return self

    def save(self):
        self.jobs.append(len(self.rows))
        if "offset" in self.computed and any(
            (row["topic"], row["partition"], row["offset"]) in self.bad for row in self.rows
        ):
            raise self.error


def searched(places, bad, error=None, failure=None):
    """(the message, the number of jobs, the frame)."""
    jobs: list[int] = []
    rows = [{"topic": t, "partition": p, "offset": o} for t, p, o in places]
    good = Rows(rows, bad, error or Divided(), jobs)
    found = failed_record(good, lambda rows: {"t": rows}, "t", [TRANSFORM], failure or Divided())
    return found, len(jobs), good


PLACES = st.sets(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3), st.integers(0, 2**40)), min_size=1
)


@settings(max_examples=50)
@given(PLACES, st.data())
def test_the_first_failing_record_is_named_however_many_fail(places, data):
    bad = data.draw(st.sets(st.sampled_from(sorted(places)), min_size=1))

    found, jobs, good = searched(places, bad)

    topic, partition, offset = min(bad)
    assert found is not None
    assert f" fails for {topic}-{partition} offset {offset}: " in found
    assert jobs <= PROBES_MAX
    assert good.cached == 0


def test_the_message_has_the_expression_at_its_place_and_what_tolerates_it():
    error = Divided("1 / a", at=7)

    found, _, _ = searched([("a", 0, 5)], {("a", 0, 5)}, error)

    assert found == (
        "f.yaml:4:17: transforms.t.sql: `1 / a` fails for a-0 offset 5: Division by zero; nothing "
        "of this batch was written. Use `try_divide` to tolerate it"
    )


def test_where_spark_names_no_expression_the_column_is_named():
    found, _, _ = searched([("a", 0, 5)], {("a", 0, 5)})

    assert found is not None
    assert found.startswith("f.yaml:4:10: transforms.t.sql: column `offset` fails for a-0 offset 5")


def test_rows_that_can_be_computed_now_name_no_record():
    assert searched([("a", 0, 5)], set())[0] is None
    assert searched([], set())[0] is None


def test_another_error_is_not_searched_for():
    found, jobs, _ = searched([("a", 0, 5)], {("a", 0, 5)}, failure=RuntimeError("lost"))

    assert (found, jobs) == (None, 0)


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
def test_only_an_error_that_a_value_causes_is_of_a_row(error, of_a_row):
    assert is_of_a_row(error) is of_a_row


def test_the_causes_of_an_untranslated_error_count():
    inner = SimpleNamespace(getSqlState=lambda: "22003", getCause=lambda: None)
    error = py4j.Py4JError("o.merge")
    error.java_exception = SimpleNamespace(getSqlState=lambda: None, getCause=lambda: inner)

    assert is_of_a_row(error)
