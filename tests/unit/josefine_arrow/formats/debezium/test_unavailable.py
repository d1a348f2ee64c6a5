"""Forms of Debezium's placeholder, and the pattern that finds them in a row as JSON."""

from __future__ import annotations

import base64
import json
import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_arrow.formats.debezium.unavailable import PLACEHOLDER, forms_of, pattern_of

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1)


def test_the_forms_are_those_of_the_connectors():
    forms = forms_of("hi?")

    assert forms.texts == ("hi?", "aGk/", "aGk_", "68693f", '{"hi?":"hi?"}')
    assert forms.data == b"hi?"
    assert forms.numbers == (104, 105, 63)
    assert forms_of("é").numbers == (-61, -87)
    # Java's UUID.nameUUIDFromBytes of the default.
    assert forms_of(PLACEHOLDER).elements == (PLACEHOLDER, "b68a35a7-17ad-35b3-af2a-ae46edb4545a")
    assert uuid.UUID(forms.elements[1]).version == 3


@given(TEXTS)
def test_the_pattern_finds_each_form_in_a_row(placeholder):
    forms, pattern = forms_of(placeholder), re.compile(pattern_of(placeholder))
    values = [
        *forms.texts,
        *([element] for element in forms.elements),
        base64.b64encode(forms.data).decode(),  # bytes, as Spark writes them in JSON
        [*forms.numbers],
        [float(number) for number in forms.numbers],
        {placeholder: placeholder},
    ]
    for value in values:
        assert pattern.search(
            json.dumps({"a": 1, "b": value}, ensure_ascii=False, separators=(",", ":"))
        )


@pytest.mark.parametrize(
    "value", ["", "x__debezium_unavailable_value", "values", [95], None, [1.5]]
)
def test_the_pattern_finds_nothing_in_other_rows(value):
    assert not re.search(pattern_of(PLACEHOLDER), json.dumps({"a": value}, separators=(",", ":")))
