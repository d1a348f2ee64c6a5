"""A character of a value has the place in the file that a person would point at."""

from __future__ import annotations

import pytest

from pipelines.base.errors import Place
from pipelines.config.source_positions import place_at
from pipelines.model.pipeline import Placed

HERE = Place(file="f.yaml", line=5, column=9)


@pytest.mark.parametrize(
    ("text", "written", "index", "line", "column"),
    [
        ("a + b", "a + b", 4, 5, 13),
        ("a + b", "'a + b'", 4, 5, 14),
        ("a +\nb", "|\n    a +\n    b", 4, 7, 5),
        ("a + b", "a +\n    b", 4, 6, 5),
    ],
    ids=["plain", "quoted", "block", "folded"],
)
def test_a_character_is_found_in_what_is_written(text, written, index, line, column):
    placed = Placed(text=text, place=HERE, path="p", written=written)

    assert place_at(placed, index) == Place(file="f.yaml", line=line, column=column)


def test_where_a_variable_was_replaced_the_value_s_place_has_to_do():
    placed = Placed(text="a + 7", place=HERE, path="p", written="a + ${N}")

    assert place_at(placed, 4) is HERE
