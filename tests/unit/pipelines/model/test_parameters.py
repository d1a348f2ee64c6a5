"""Named parameters of SQL: which names a text has, and the literals of values."""

from __future__ import annotations

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from pipelines.model.parameters import bound, literal, names_in

TEXTS = st.text(max_size=20) | st.sampled_from(["' or 1=1 --", "\\", "\\'", "${x}", "a''b", ":n"])


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("a > :least and b=:most", ["least", "most"]),
        ("(:a)", ["a"]),
        ("x::int + :a", ["a"]),
        ("cast(x as struct<a:int>)", []),
        ("x = ':a' or x = \":b\" or `:c` -- :d\n or /* :e */ y", []),
        ("x = 'it\\'s :a'", []),
        ("x = 'it''s :a' and :b", ["b"]),
    ],
)
def test_a_parameter_is_a_name_after_a_colon_outside_of_texts_and_comments(sql, names):
    found = list(names_in(sql))

    assert [name for _, name in found] == names
    assert all(sql[index : index + 1 + len(name)] == f":{name}" for index, name in found)


@given(value=TEXTS)
def test_no_text_ends_its_literal(value):
    """Whether a backslash escapes, as in Spark by default, or not."""
    for dialect in ("spark", "postgres"):
        sql = literal(value) if dialect == "spark" else literal(value).replace("STRING", "TEXT")
        (found,) = sqlglot.parse(f"select {sql} as a", read=dialect)
        assert isinstance(found, exp.Select)
        assert len(found.expressions) == 1
    text = found.find(exp.Literal) or found.find(exp.HexString)
    assert text is not None
    read = bytes.fromhex(text.this).decode() if isinstance(text, exp.HexString) else text.this
    assert read == value


def test_a_literal_has_the_type_of_its_value():
    assert [literal(each) for each in (True, 5, -5, 2**40, 0.1, 1e300, "a b")] == [
        "true", "(5)", "(-5)", "(1099511627776)", "(0.1D)", "(1e+300D)", "'a b'",
    ]  # fmt: skip


def test_only_known_parameters_are_replaced():
    assert bound("a > :x and b = ':x' and :y", {"x": 1}) == "a > (1) and b = ':x' and :y"
