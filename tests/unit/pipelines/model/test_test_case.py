"""A test's values as JSON: every digit of a number that the file has."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from pipelines.config.loader import load
from pipelines.config.records import exact
from pipelines.model.test_case import json_text


@pytest.mark.parametrize(
    "value",
    [None, True, 1, 1.5, 'ü"\\', [1, [2.5]], {"a": {"b": None}, "ü": []}, {}],
)
def test_the_text_is_the_json_of_the_value(value):
    assert json.loads(json_text(value)) == value


def test_a_decimal_keeps_its_digits():
    assert json_text({"d": Decimal("1.230000000000000000001")}) == (
        '{"d": 1.230000000000000000001}'
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "12345678901234567890.123456789012345678",
            Decimal("12345678901234567890.123456789012345678"),
        ),
        ("2.50", Decimal("2.50")),
        ("1.5e+3", Decimal("1.5e+3")),
        ("7", 7),
        ("'2.50'", "2.50"),
        ("true", True),
        (".5", 0.5),
    ],
)
def test_a_number_of_the_file_has_the_digits_that_it_has_there(text, found):
    node = load(f"a: {text}\n", "f.yaml", {}).nodes["a"]

    value = exact(node)

    assert (value, type(value)) == (found, type(found))
