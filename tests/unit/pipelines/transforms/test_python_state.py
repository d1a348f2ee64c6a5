"""Errors of a class with a state, in one sentence with the line of its file."""

from __future__ import annotations

import pytest

from pipelines.base.errors import Place
from pipelines.model.keyed_state import KeyedState
from pipelines.model.pipeline import Function, Placed, Transform
from pipelines.transforms.python_state import why_class_failed

HERE = Place(file="f.yaml", line=1, column=1)
STATE = KeyedState(
    keys=("k",), key_places=(HERE,), schema="k INT", schema_place=HERE, schema_path="s",
    timers="none", ttl_ms=None,
)  # fmt: skip
SEEN = Transform(
    name="seen",
    place=HERE,
    inputs=("clean",),
    said=Placed(text="own.py:Seen", place=HERE, path="p"),
    function=Function(file="/x/own.py", name="Seen", source=""),
    state=STATE,
)
TEXT = """\
Job aborted: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/spark/worker.py", line 3, in main
  File "/x/own.py", line 7, in handleInputRows
    self.seen.update(1 / 0)
  File "/x/own.py", line 9, in helper
{last}

	at org.apache.spark.Foo.bar(Foo.scala:1)
Caused by: java.io.IOException: other
"""


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ("ZeroDivisionError: division by zero", "ZeroDivisionError: division by zero"),
        ("own.Refused: no", "Refused: no"),
        ("pyspark.errors.PySparkValueError: [X] y", "PySparkValueError: [X] y"),
        ("KeyError: 'a'", "KeyError: 'a'"),
    ],
)
def test_an_error_of_the_class_is_one_sentence_with_its_last_line(last: str, why: str) -> None:
    found = why_class_failed(SEEN, RuntimeError(TEXT.format(last=last)))

    assert found.startswith(f"transform `seen`: /x/own.py:9: {why}")
    assert "\n" not in found


def test_other_errors_are_not_the_classs() -> None:
    assert why_class_failed(SEEN, RuntimeError("no broker")) == ""
