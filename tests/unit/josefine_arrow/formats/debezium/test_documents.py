"""MongoDB's Extended JSON to plain JSON."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_arrow.formats.debezium.documents import PLAIN

VALUES = {
    '{"$oid": "65a1f0c2a4b3d2e1f0a9b8c7"}': "65a1f0c2a4b3d2e1f0a9b8c7",
    '{"$numberLong":"-9223372036854775808"}': -(2**63),
    '{"$numberInt": "7"}': 7,
    '{"$numberDouble": "1.5e-3"}': 0.0015,
    '{ "$numberDecimal" : "12.50" }': 12.5,
    '{"$date": 1767225599999}': 1767225599999,
    '{"$date": {"$numberLong": "-1"}}': -1,
    '{"$date": "2026-01-01T00:00:00Z"}': "2026-01-01T00:00:00Z",
    '{"$binary": "aGk=", "$type": "00"}': "aGk=",
    '{"$binary": {"base64": "aGk=", "subType": "00"}}': "aGk=",
}


def plain(document: str) -> str:
    """A document as plain JSON. Total: another text stays as it is."""
    for pattern in PLAIN:
        document = re.sub(pattern, lambda match: match[1], document)
    return document


@pytest.mark.parametrize("value", VALUES)
def test_a_value_of_extended_json_becomes_a_value_of_a_column(value):
    document = f'{{"a": [{value}, {{"b": {value}}}]}}'

    assert json.loads(plain(document)) == {"a": [VALUES[value], {"b": VALUES[value]}]}


@pytest.mark.parametrize(
    "value", ['{"$numberDouble": "NaN"}', '{"$timestamp": {"t": 1, "i": 2}}', '{"$minKey": 1}']
)
def test_a_value_without_a_column_of_its_kind_stays_an_object(value):
    assert plain(value) == value


SCALARS = st.none() | st.booleans() | st.integers() | st.text('{}"$:, \\oidatenumberLong12')
DOCUMENTS = st.recursive(
    SCALARS, lambda each: st.lists(each) | st.dictionaries(st.sampled_from("abc"), each)
)


@given(DOCUMENTS, st.booleans())
def test_a_document_without_extended_values_stays_as_it_is(document, is_compact):
    """Texts that look like one, too."""
    text = json.dumps(document, separators=(",", ":") if is_compact else None)

    assert plain(text) == text


@given(st.sampled_from([*VALUES]), st.lists(st.text('{}"$:, \\oid'), max_size=3))
def test_texts_inside_a_document_are_not_touched(value, texts):
    document = {"text": value, "texts": texts, "value": "HERE"}

    found = json.loads(plain(json.dumps(document).replace('"HERE"', value)))

    assert found == {**document, "value": VALUES[value]}


@given(st.text())
def test_any_text_has_a_result(text):
    plain(text)
