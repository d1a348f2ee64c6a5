"""JSON of the journal: what is written is read back, and what JSON lacks is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_journal.errors import JournalError
from josefine_journal.json_text import compact, parse, parse_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.text(st.characters(exclude_categories=("Cs",))), inner
    ),
    max_leaves=10,
)  # fmt: skip


@given(VALUES)
def test_a_value_is_read_back_from_text_and_from_bytes(value: object) -> None:
    text = compact(value)

    assert parse(text, "it") == value
    assert parse(text.encode(), "it") == value


def test_the_text_is_short_and_readable() -> None:
    assert compact({"ä": [1, "ö"]}) == '{"ä":[1,"ö"]}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"x", {1j: 1}, "\ud800", object()])
def test_what_json_cannot_represent_is_refused(value: object) -> None:
    with pytest.raises(JournalError, match=r"^not representable as JSON: "):
        compact(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)

    with pytest.raises(JournalError):
        compact(value)


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "{", b"\xff", '{"a":NaN}', "[" * 100_000])
def test_a_text_that_is_not_json_is_named(text: str | bytes) -> None:
    with pytest.raises(JournalError, match=r"^the record is not valid JSON: "):
        parse(text, "the record")


@pytest.mark.parametrize("value", [[], 1, None, "a"])
def test_only_an_object_is_an_object(value: object) -> None:
    with pytest.raises(JournalError, match=r"^it is not a JSON object"):
        parse_object(json.dumps(value), "it")
    assert parse_object("{}", "it") == {}
