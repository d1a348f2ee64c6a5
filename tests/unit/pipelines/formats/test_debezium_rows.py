"""Debezium's envelopes as rows: which row a change has, and why an envelope has none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from josefine_arrow.formats.debezium.envelope import SOURCE_NAMES
from josefine_arrow.formats.debezium.position import CONNECTORS
from pipelines.formats.debezium_rows import DebeziumValues, position, why_none
from pipelines.formats.python_values import of_parts, value_of, why_of
from tests.unit.josefine_arrow.formats.debezium.position_oracle import position_of
from tests.unit.pipelines.tiny_spark import Column, col

pytest.importorskip("pyspark")
pytestmark = pytest.mark.usefixtures("tiny_spark")
NAMES = ["before", "after", "op", "source"]
TEXTS = st.sampled_from(
    [None, "", "null", "0", "007", "18446744073709551616", "x", "bin.000123", "bin.9", "1\n",
     "00000027:00000758:0003", "AAAAAAAA:bbbbbbbb:cccc", "27:758:3"]
)  # fmt: skip


class Given:
    """Envelopes that are decoded already: the column is a struct, or a text for a bad one."""

    def parse(self, data: Column) -> Column:
        def part(wanted: type) -> Column:
            return Column(lambda row: v if isinstance(v := data.value(row), wanted) else None)

        return of_parts(part(dict), part(str))

    def is_good(self, data: Column, parsed: Column) -> Column:
        return data.isNotNull() & why_of(parsed).isNull()

    def result(self, parsed: Column) -> Column:
        return value_of(parsed)

    def reason(self, data: Column, parsed: Column) -> Column:
        return why_of(parsed)


def change(op: str | None, before: Any = None, after: Any = None, **source: Any) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after,
            "source": dict.fromkeys(SOURCE_NAMES) | source}  # fmt: skip


def made(envelope: object, values: DebeziumValues) -> tuple[Any, Any]:
    """(the value or None, the reason)."""
    data, row = col("value"), {"value": envelope}
    parsed = values.parse(data)
    is_good = values.is_good(data, parsed).value(row)
    return (values.result(parsed).value(row) if is_good else None), values.reason(
        data, parsed
    ).value(row)


@pytest.mark.parametrize(
    ("op", "row", "deleted"),
    [("c", "new", False), ("r", "new", False), ("u", "new", False), ("d", "old", True)],
)
def test_the_row_of_a_change_is_its_state_after_it_and_of_a_delete_the_one_before(op, row, deleted):
    value, why = made(change(op, "old", "new"), DebeziumValues(Given(), NAMES))

    assert why is None
    assert (value["row"], value["deleted"], value["op"]) == (row, deleted, op)


@pytest.mark.parametrize(
    ("envelope", "why"),
    [
        (change(None, "a", "b"), "no envelope of Debezium: it has no `op`"),
        (change("t"), "op t: a truncate is of no row"),
        (change("m", "a", "b"), "op m: expected c, r, u or d"),
        (change("d", None, "b"), "op d without `before`"),
        (change("u", "a", None), "op u without `after`"),
        ("not JSON", "not JSON"),
    ],
)
def test_an_envelope_without_the_row_of_its_operation_is_bad(envelope, why):
    assert made(envelope, DebeziumValues(Given(), NAMES)) == (None, why)


def test_only_mongodb_deletes_without_the_row():
    value, why = made(change("d"), DebeziumValues(Given(), NAMES, documents=True))

    assert (value["deleted"], value["row"], why) == (True, None, None)


def test_where_the_file_uses_positions_an_envelope_without_one_is_bad():
    values = DebeziumValues(Given(), NAMES, SOURCE_NAMES)

    assert made(change("c", None, 1), values) == (
        None, "no position: `source.connector` is missing",
    )  # fmt: skip
    value, why = made(change("c", None, 1, connector="postgresql", lsn=7), values)
    assert (value["position"], why) == ("0" * 19 + "7", None)
    assert made(change("t"), values)[1] == "op t: a truncate is of no row"


@pytest.mark.parametrize("connector", [*CONNECTORS, "db2", None])
def test_positions_of_columns_are_those_of_the_table(connector):
    fields = sorted({name for parts in CONNECTORS.values() for p in parts for name in p.fields})
    source, names = col("source"), ["connector", *fields]
    found, why = position(source, names), why_none(source, names)

    @example(dict.fromkeys(fields))
    @example({**dict.fromkeys(fields), "commit_scn": "null", "scn": "5"})
    @settings(max_examples=60)
    @given(st.fixed_dictionaries(dict.fromkeys(fields, TEXTS)))
    def holds(values: dict[str, str | None]) -> None:
        row = {"source": {"connector": connector, **values}}

        assert (found.value(row), why.value(row)) == position_of(row["source"])

    holds()
