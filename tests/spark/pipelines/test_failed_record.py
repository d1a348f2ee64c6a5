"""A batch that fails because of one record names it: record, expression, place in the file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.base.errors import RunError
from tests.spark.pipelines.files_lab import FilesLab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FILE = """
version: 1
name: lab
spark: {{ master: "local[1]", checkpoint: "${{LAB}}/ck" }}
trigger: {{ available_now: true }}
sources:
  ev:
    type: file
    path: ${{LAB}}/ev
    decode: {{ value: {{ format: json, schema: "id INT, n STRING, d INT", on_error: fail }} }}
transforms:
  first: {{ inputs: [ev], sql: "select value.*, offset as _offset from ev" }}
  second: {{ inputs: [first], {what} }}
sinks:
  lake: {{ type: delta, inputs: [second], path: "${{LAB}}/lake", mode: append }}
"""

FUNCTION = """
def doubled(first):
    return first.selectExpr("id", "cast(n as double) * 2 as twice")
"""


def lines(count: int, bad: dict[str, object]) -> list[str]:
    """Good records, and a bad one in the middle."""
    good = [json.dumps({"id": n, "n": str(n), "d": 1 + n % 3}) for n in range(count)]
    return [
        *good[: count // 2],
        json.dumps({"id": -1, "n": "7", "d": 1} | bad),
        *good[count // 2 :],
    ]


def place_of(text: str, expression: str) -> str:
    line = next(n for n, each in enumerate(text.splitlines(), 1) if expression in each)
    return f"lab.yaml:{line}:{text.splitlines()[line - 1].index(expression) + 1}"


@pytest.mark.long_proof(share=5)
@pytest.mark.parametrize(
    ("expression", "bad", "told", "advice"),
    [
        ("cast(n as int)", {"n": "abc"}, "The value 'abc' of the type", "Use `try_cast` to"),
        ("1 / (d - 5)", {"d": 5}, "Division by zero", "Use `try_divide` to"),
        ("cast(d * d as tinyint)", {"d": 99}, "due to an overflow", "Use `try_cast` to"),
        ("to_date('2024-01-0' || d)", {"d": 0}, "The value '2024-01-00' of", "Use `try_cast` to"),
        ("element_at(array(1, 2, 3), d)", {"d": 9}, "The index 9 is out of bounds", "Use `try_el"),
    ],
)
def test_the_record_and_the_expression_are_named(
    spark: SparkSession,
    tmp_path: Path,
    expression: str,
    bad: dict[str, object],
    told: str,
    advice: str,
) -> None:
    text = FILE.format(what=f'sql: "select id, {expression} as out from first"')
    lab = FilesLab(spark, tmp_path, text, ["ev"])
    lab.bytes = 1_000_000
    records = lines(3_000, bad)
    lab.add("ev", *records)
    at = len(records) // 2
    offset = sum(len(each) + 1 for each in records[:at])

    with pytest.raises(RunError) as caught:
        lab.run()

    message = str(caught.value)
    # Spark does not name the expression of an overflow: the column is found by another search.
    named = "column `out`" if "overflow" in told else f"`{expression}`"
    place = place_of(text, '"select id' if "overflow" in told else expression)
    assert f"{place}: transforms.second.sql: {named} fails" in message
    assert f"for ev.jsonl-0 offset {offset}: " in message
    assert told in message
    assert advice in message
    assert "nothing of this batch was written" in message


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_function_that_fails_names_the_record(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(FUNCTION)
    lab = FilesLab(spark, tmp_path, FILE.format(what='python: "own.py:doubled"'), ["ev"])
    lab.add("ev", *lines(20, {"n": "abc"}))

    with pytest.raises(RunError, match=r"fails for ev.jsonl-0 offset \d+: .*The value 'abc'"):
        lab.run()


WINDOW = """
  timed: { inputs: [ev], sql: "select value.*, timestamp_seconds(value.id) as at from ev" }
  second:
    inputs: [timed]
    watermark: { timed: { column: at, delay: 1m } }
    sql: "select window.start as w, sum(int(n)) as n from timed group by window(at, '1 minute')"
"""


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_window_that_fails_names_the_record(spark: SparkSession, tmp_path: Path) -> None:
    """Its rows have no record: the batch's records are computed again, without the state."""
    second = next(line for line in FILE.splitlines() if line.startswith("  second:"))
    text = FILE.replace(second, WINDOW.strip("\n"))
    lab = FilesLab(spark, tmp_path, text.replace("{{", "{").replace("}}", "}"), ["ev"])
    records = lines(8, {"n": "abc"})
    lab.add("ev", *records)
    offset = sum(len(each) + 1 for each in records[:4])

    with pytest.raises(RunError) as caught:
        lab.run()

    named = (
        rf"transforms.second.sql: `int\(n\)` fails for ev.jsonl-0 offset {offset}: The value 'abc'"
    )
    assert re.search(named, str(caught.value)), str(caught.value)
