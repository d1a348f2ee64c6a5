"""Debezium's envelopes as rows: which row, whether it is deleted, and the reason for a bad one."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_arrow.formats.debezium.decoder import changes_of, json_envelopes, parts_of
from josefine_arrow.formats.debezium.envelope import no_row

ROW = pa.struct([("id", pa.int32()), ("name", pa.string())])
ROWS = st.sampled_from([None, {"id": 1, "name": "a"}, {"id": 2, "name": None}])
ENVELOPES = st.fixed_dictionaries(
    {"before": ROWS, "after": ROWS, "op": st.sampled_from(["c", "r", "u", "d", "t", "x", None])}
)


def decoded(values: list[bytes | None]) -> list[dict[str, Any]]:
    column = pa.array(values, pa.binary())
    found = changes_of(column, *json_envelopes(ROW)(column))
    columns = [each.to_pylist() for each in found]
    names = ("rows", "reasons", "deleted", "ops")
    return [dict(zip(names, each, strict=True)) for each in zip(*columns, strict=True)]


@given(st.lists(st.one_of(st.none(), st.tuples(ENVELOPES, st.booleans())), max_size=8))
def test_each_value_is_a_row_or_has_its_reason(said: list[Any]) -> None:
    values = [
        None if each is None else json.dumps({"payload": each[0]} if each[1] else each[0]).encode()
        for each in said
    ]

    for each, found in zip(said, decoded(values), strict=True):
        if each is None:
            assert found == {"rows": None, "reasons": None, "deleted": None, "ops": None}
            continue
        op, before, after = (each[0][name] for name in ("op", "before", "after"))
        why = no_row(op, has_before=before is not None, has_after=after is not None)
        row = None if why else (before if op == "d" else after)
        assert found["rows"] == row
        assert found["reasons"] == why
        assert (found["deleted"], found["ops"]) == ((None, None) if why else (op == "d", op))


@pytest.mark.parametrize(
    ("value", "why"),
    [(b"x", "not JSON"), (b'{"op": "c", "after": {"id": "x"}}', "after.id"), (b"{}", "no `op`")],
)
def test_a_value_that_is_no_envelope_has_a_reason(value: bytes, why: str) -> None:
    (found,) = decoded([value])

    assert found["rows"] is None
    assert why in found["reasons"]


def test_the_parts_of_an_envelope_are_found_among_its_other_columns() -> None:
    kind = pa.struct([("op", pa.string()), ("ts", pa.int64()), ("after", ROW), ("before", ROW)])
    row = {"id": 1, "name": "a"}
    parts = parts_of(pa.array([{"op": "c", "ts": 1, "after": row, "before": None}, None], kind))

    assert parts.to_pylist()[0] == {"before": None, "after": row, "op": "c"}
