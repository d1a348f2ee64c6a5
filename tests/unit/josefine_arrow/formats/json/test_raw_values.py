"""Values that keep their text where a schema asks for it, and are the values of JSON elsewhere."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_arrow.formats.json.grammar import parse
from josefine_arrow.formats.json.raw_values import Raw, is_json, parse_raw

JSON = pa.json_(pa.utf8())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner,
                                                                max_size=3),
    max_leaves=8,
)  # fmt: skip
SPACES = st.sampled_from([None, 0, 1, "\t"])


def written(value: object, indent: int | str | None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


@settings(max_examples=40)
@given(VALUES, SPACES)
def test_where_no_text_is_asked_for_the_value_is_that_of_the_grammar(value, indent):
    text = f" {written(value, indent)} "

    assert parse_raw(text, pa.int64()) == parse(text)


@settings(max_examples=40)
@given(VALUES, SPACES)
def test_a_json_column_has_the_text_as_it_was_written(value, indent):
    text = written(value, indent)

    found = parse_raw(text, JSON)

    if value is None:
        assert found is None
    else:
        assert isinstance(found, Raw)
        assert found == text


@settings(max_examples=40)
@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4), SPACES)
def test_members_of_a_struct_keep_their_text_and_others_their_value(value, indent):
    names = sorted(value)[:2]
    kind = pa.struct([pa.field(name, JSON) for name in names])

    found = parse_raw(written(value, indent), kind)

    assert found.keys() == value.keys()
    for name, each in found.items():
        if name in names and value[name] is not None:
            assert isinstance(each, Raw)
            assert json.loads(each) == value[name]
        else:
            assert each == parse(written(value[name], None))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"a"', "a"),
        ("[1, 2]", "[1, 2]"),
        ('{"a" : 1}', '{"a" : 1}'),
        ("1.50", "1.50"),
        ("null", None),
    ],
)
def test_in_a_string_only_objects_and_arrays_keep_their_text(text, found):
    value = parse_raw(text, pa.string())

    assert value == found
    assert isinstance(value, Raw) is (text[0] in "[{")


def test_elements_and_values_of_a_map_are_texts_by_their_type():
    assert parse_raw('[{"a":1}, 2, "x"]', pa.list_(pa.string())) == ['{"a":1}', "2", "x"]
    assert parse_raw('{"k" : [1 , 2], "m":[]}', pa.map_(pa.string(), JSON)) == {
        "k": "[1 , 2]", "m": "[]",
    }  # fmt: skip
    assert is_json(JSON)
    assert not is_json(pa.string())
